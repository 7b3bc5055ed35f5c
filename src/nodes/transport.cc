#include "nodes/transport.h"

#include <utility>

#include "nodes/bucket_transport.h"
#include "nodes/flight_client.h"
#include "nodes/folder_transport.h"

namespace paramedic::nodes {

Result<std::unique_ptr<Transport>> make_transport(const TransportOptions& options) {
  if (!options.address.folder.empty()) return make_folder_transport(options.address.folder);
  if (!options.address.bucket.empty()) {
    PARAMEDIC_ASSIGN(auto bucket, open_bucket(options.address.bucket));
    return make_bucket_transport(std::move(bucket));
  }
  if (options.address.port == 0) {
    return invalid_argument("the collector's address has no port: " + options.address.text());
  }
  return make_flight_client(options);
}

}  // namespace paramedic::nodes
