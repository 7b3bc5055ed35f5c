#pragma once
// Parcels through a bucket: no network between the nodes and the collector, and no machine that
// has to be up. Objects cannot be appended, so each parcel is one, and the collector takes them
// away when it has stored them:
//
//   JOB/NODE/parcels/00000000042   a parcel, in the order of their numbers
//   JOB/NODE/receipt               the newest answer (docs/formats/parcel.md)

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "nodes/bucket.h"
#include "nodes/transport.h"

namespace paramedic::nodes {

std::unique_ptr<Transport> make_bucket_transport(std::unique_ptr<Bucket> bucket);

// Names of the objects of a node, "JOB/NODE/…".
std::string parcel_object(const std::string& job, const std::string& node, uint64_t number);
std::string receipt_object(const std::string& job, const std::string& node);
struct ParcelName {
  std::string job;
  std::string node;
  uint64_t number = 0;
};
// Nothing for what is no parcel of ours.
std::optional<ParcelName> parse_parcel_object(const std::string& name);

}  // namespace paramedic::nodes
