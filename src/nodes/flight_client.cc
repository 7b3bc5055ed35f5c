#include "nodes/flight_client.h"

#include <arrow/buffer.h>
#include <arrow/flight/client.h>
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace paramedic::nodes {
namespace {

namespace flight = arrow::flight;

constexpr double kTimeoutS = 10;

// What fails in the same way at every try. gRPC tells it in the words of OpenSSL only.
Status of_tls(const std::string& message, const Address& address) {
  const std::string who = "the collector at " + address.text();
  const auto tells = [&](std::string_view words) { return message.find(words) != message.npos; };
  if (tells("certificate verify failed") || tells("CERTIFICATE_VERIFY_FAILED")) {
    return invalid_argument(who + " has a certificate that is not trusted here",
                            "--collector-tls-roots FILE with the certificate (PEM) that signed it, "
                            "or that it is");
  }
  if (tells("is not in peer certificate") || tells("Hostname Verification Check failed")) {
    return invalid_argument(
        fmt::format("{} has a certificate for another name than {}", who, address.host),
        "ask for it by the name in its certificate, or make one with that name or address in "
        "subjectAltName");
  }
  if (tells("wrong version number") || tells("WRONG_VERSION_NUMBER")) {
    return invalid_argument(who + " does not speak TLS",
                            "grpc://, or give the collector --tls-certificate and --tls-key");
  }
  return {};
}

Status from_flight(const arrow::Status& status, const Address& address) {
  const std::string where = address.text();
  const std::string message = where + ": " + status.message();
  if (address.has_tls) PARAMEDIC_TRY(of_tls(message, address));
  const auto detail = flight::FlightStatusDetail::UnwrapStatus(status);
  if (detail != nullptr && (detail->code() == flight::FlightStatusCode::Unauthenticated ||
                            detail->code() == flight::FlightStatusCode::Unauthorized)) {
    return invalid_argument("the collector at " + where + " does not accept this token",
                            std::string("set the same ") + kTokenVariable + " on both sides");
  }
  // All that a server with TLS answers to one without.
  const bool may_be_tls = !address.has_tls && message.find("Socket closed") != std::string::npos;
  return io_error(message + (may_be_tls ? " (is it grpc+tls:// there?)" : ""));
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
      return from_flight(answer.status(), options_.address);
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
    if (!location.ok()) return from_flight(location.status(), address);
    flight::FlightClientOptions options = flight::FlightClientOptions::Defaults();
    options.tls_root_certs = options_.tls_roots;
    // How long to wait between tries is ours to say: gRPC would go up to two minutes, and remember
    // that for the next client of the same address.
    options.generic_options.emplace_back("grpc.use_local_subchannel_pool", 1);
    options.generic_options.emplace_back("grpc.max_reconnect_backoff_ms", 5000);
    auto client = flight::FlightClient::Connect(*location, options);
    if (!client.ok()) return from_flight(client.status(), address);
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
