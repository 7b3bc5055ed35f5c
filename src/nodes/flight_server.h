#pragma once
// The collector's port: Arrow Flight, one action, a token with every call. Serves from threads of
// its own until it is destroyed.

#include <functional>
#include <memory>
#include <string>

#include "nodes/address.h"
#include "nodes/parcel.h"

namespace paramedic::nodes {

struct ServerOptions {
  Address address;  // the interface to listen on; port 0: a free one
  std::string token;
  std::string tls_certificate;  // PEM; with `has_tls`
  std::string tls_key;
  // Called from several threads.
  std::function<Result<Receipt>(const Parcel&)> take;
};

class FlightServer {
 public:
  static Result<std::unique_ptr<FlightServer>> start(ServerOptions options);
  virtual ~FlightServer() = default;
  [[nodiscard]] virtual int port() const = 0;
  // Calls that were refused for their token.
  [[nodiscard]] virtual uint64_t refused() const = 0;
};

}  // namespace paramedic::nodes
