#include "nodes/flight_client.h"

#include <arrow/buffer.h>
#include <arrow/flight/client.h>

#include <utility>

namespace paramedic::nodes {
namespace {

namespace flight = arrow::flight;

constexpr double kTimeoutS = 10;

Status from_flight(const arrow::Status& status, const std::string& where) {
  const std::string message = where + ": " + status.message();
  const auto detail = flight::FlightStatusDetail::UnwrapStatus(status);
  if (detail != nullptr && (detail->code() == flight::FlightStatusCode::Unauthenticated ||
                            detail->code() == flight::FlightStatusCode::Unauthorized)) {
    return invalid_argument("the collector at " + where + " does not accept this token",
                            std::string("set the same ") + kTokenVariable + " on both sides");
  }
  return io_error(message);
}

class FlightClient : public Transport {
 public:
  explicit FlightClient(const TransportOptions& options) : options_(options) {}
  ~FlightClient() override { close(); }

  Result<Receipt> send(const Parcel& parcel) override {
    if (!client_) PARAMEDIC_TRY(connect());
    auto answer = call(encode(parcel));
    if (!answer.ok()) {
      close();
      return from_flight(answer.status(), options_.address.text());
    }
    return decode_receipt(*answer);
  }

  [[nodiscard]] int64_t clock_grain_ns() const override { return 0; }

 private:
  Status connect() {
    const Address& address = options_.address;
    const auto location = address.has_tls
                              ? flight::Location::ForGrpcTls(address.host, address.port)
                              : flight::Location::ForGrpcTcp(address.host, address.port);
    if (!location.ok()) return from_flight(location.status(), address.text());
    flight::FlightClientOptions options = flight::FlightClientOptions::Defaults();
    options.tls_root_certs = options_.tls_roots;
    // How long to wait between tries is ours to say: gRPC would go up to two minutes, and remember
    // that for the next client of the same address.
    options.generic_options.emplace_back("grpc.use_local_subchannel_pool", 1);
    options.generic_options.emplace_back("grpc.max_reconnect_backoff_ms", 5000);
    auto client = flight::FlightClient::Connect(*location, options);
    if (!client.ok()) return from_flight(client.status(), address.text());
    client_ = std::move(client).ValueUnsafe();
    return {};
  }

  void close() {
    if (client_) (void)client_->Close();
    client_.reset();
  }

  arrow::Result<std::string> call(std::string body) {
    flight::FlightCallOptions call;
    call.timeout = flight::TimeoutDuration(kTimeoutS);
    call.headers.emplace_back(kTokenHeader, kTokenPrefix + options_.token);
    const flight::Action action{kParcelAction, arrow::Buffer::FromString(std::move(body))};
    ARROW_ASSIGN_OR_RAISE(const auto results, client_->DoAction(call, action));
    ARROW_ASSIGN_OR_RAISE(const auto result, results->Next());
    if (result == nullptr) return arrow::Status::IOError("the answer is empty");
    std::string answer = result->body->ToString();
    // Read to its end, so that the call is over before the next one begins.
    ARROW_RETURN_NOT_OK(results->Drain());
    return answer;
  }

  const TransportOptions options_;
  std::unique_ptr<flight::FlightClient> client_;
};

}  // namespace

std::unique_ptr<Transport> make_flight_client(const TransportOptions& options) {
  return std::make_unique<FlightClient>(options);
}

}  // namespace paramedic::nodes
