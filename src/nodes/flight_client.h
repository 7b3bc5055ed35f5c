#pragma once
// Parcels over Arrow Flight. What Arrow's Status says is translated here.

#include <memory>

#include "nodes/transport.h"

namespace paramedic::nodes {

// The name of the one action that a collector offers: its body is a parcel, its result a receipt.
inline constexpr const char* kParcelAction = "paramedic.parcel";
inline constexpr const char* kTokenHeader = "authorization";
inline constexpr const char* kTokenPrefix = "Bearer ";

// Connects when the first parcel is sent, and anew after an error.
std::unique_ptr<Transport> make_flight_client(const TransportOptions& options);

}  // namespace paramedic::nodes
