#include "nodes/flight_server.h"

#include <arrow/buffer.h>
#include <arrow/flight/server.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "nodes/flight_client.h"

namespace paramedic::nodes {
namespace {

namespace flight = arrow::flight;

// Calls that are being answered at the same time; others are told to come again. Each one holds at
// most one parcel.
constexpr int kCallsMax = 64;

class Service : public flight::FlightServerBase {
 public:
  explicit Service(ServerOptions options) : options_(std::move(options)) {}

  arrow::Status DoAction(const flight::ServerCallContext& context, const flight::Action& action,
                         std::unique_ptr<flight::ResultStream>* results) override {
    if (!knows_token(context)) {
      ++refused_;
      return flight::MakeFlightError(flight::FlightStatusCode::Unauthenticated,
                                     "the token is missing or wrong");
    }
    if (action.type != kParcelAction) return arrow::Status::NotImplemented("no such action");
    if (++calls_ > kCallsMax) {
      --calls_;
      return flight::MakeFlightError(flight::FlightStatusCode::Unavailable, "too many calls");
    }
    auto answer = take(action);
    --calls_;
    ARROW_RETURN_NOT_OK(answer.status());
    std::vector<flight::Result> one;
    one.push_back(flight::Result{arrow::Buffer::FromString(std::move(answer).ValueUnsafe())});
    *results = std::make_unique<flight::SimpleResultStream>(std::move(one));
    return arrow::Status::OK();
  }

  [[nodiscard]] uint64_t refused() const { return refused_; }

 private:
  [[nodiscard]] bool knows_token(const flight::ServerCallContext& context) const {
    const auto header = context.incoming_headers().find(kTokenHeader);
    return header != context.incoming_headers().end() &&
           is_same_secret(std::string(header->second), kTokenPrefix + options_.token);
  }

  arrow::Result<std::string> take(const flight::Action& action) {
    const auto parcel =
        decode_parcel(action.body == nullptr ? std::string_view() : std::string_view(*action.body));
    if (!parcel.ok()) return arrow::Status::Invalid(parcel.status().message());
    const auto receipt = options_.take(*parcel);
    if (!receipt.ok()) return arrow::Status::IOError(receipt.status().message());
    return encode(*receipt);
  }

  const ServerOptions options_;
  std::atomic<int> calls_ = 0;
  std::atomic<uint64_t> refused_ = 0;
};

class RunningServer : public FlightServer {
 public:
  explicit RunningServer(ServerOptions options) : service_(std::move(options)) {}
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  // A call that is being answered is not waited for longer than this.
  ~RunningServer() override {
    if (!is_listening_) return;
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(2);
    (void)service_.Shutdown(&deadline);
  }

  arrow::Status init(const flight::FlightServerOptions& options) {
    ARROW_RETURN_NOT_OK(service_.Init(options));
    is_listening_ = true;
    return arrow::Status::OK();
  }
  [[nodiscard]] int port() const override { return service_.port(); }
  [[nodiscard]] uint64_t refused() const override { return service_.refused(); }

 private:
  Service service_;
  bool is_listening_ = false;
};

}  // namespace

Result<std::unique_ptr<FlightServer>> FlightServer::start(ServerOptions options) {
  const Address address = options.address;
  const auto location = address.has_tls ? flight::Location::ForGrpcTls(address.host, address.port)
                                        : flight::Location::ForGrpcTcp(address.host, address.port);
  if (!location.ok()) {
    return invalid_argument("cannot listen on " + address.text() + ": " +
                            location.status().message());
  }
  flight::FlightServerOptions server_options(*location);
  if (address.has_tls) {
    server_options.tls_certificates.push_back({options.tls_certificate, options.tls_key});
  }
  auto server = std::make_unique<RunningServer>(std::move(options));
  const arrow::Status status = server->init(server_options);
  if (!status.ok()) {
    return io_error("cannot listen on " + address.text() + ": " + status.message(),
                    address.has_tls
                        ? "is the port taken, or does the key not belong to the certificate?"
                        : "is the port taken, or the interface not of this machine?");
  }
  return std::unique_ptr<FlightServer>(std::move(server));
}

}  // namespace paramedic::nodes
