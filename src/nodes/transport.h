#pragma once
// How a parcel comes to the collector. One thread.

#include <memory>
#include <string>

#include "nodes/address.h"
#include "nodes/parcel.h"

namespace paramedic::nodes {

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // Waits for the receipt, at most about ten seconds. An error when none came: the parcel may have
  // arrived or not. kInvalidArgument when trying again is of no use (the token is wrong).
  virtual Result<Receipt> send(const Parcel& parcel) = 0;
  // By how much the times in receipts are coarser than the clock.
  [[nodiscard]] virtual int64_t clock_grain_ns() const = 0;
  // Parcels that could wait are sent this far apart at least.
  [[nodiscard]] virtual int pace_ms() const { return 0; }
};

struct TransportOptions {
  Address address;
  std::string token;
  // Certificates (PEM) that the collector's is checked with; "" = those of the system.
  std::string tls_roots;
};

Result<std::unique_ptr<Transport>> make_transport(const TransportOptions& options);

}  // namespace paramedic::nodes
