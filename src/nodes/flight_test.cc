#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "nodes/flight_client.h"
#include "nodes/flight_server.h"

namespace paramedic::nodes {
namespace {

constexpr const char* kToken = "a-token-of-tests";

class Server {
 public:
  Server() {
    ServerOptions options;
    options.address = parse_address("grpc://127.0.0.1:0").value();
    options.token = kToken;
    options.take = [this](const Parcel& parcel) -> Result<Receipt> {
      ++taken;
      bytes += parcel.pieces.empty() ? 0 : parcel.pieces[0].bytes.size();
      Receipt receipt;
      receipt.collector = parcel.node;
      return receipt;
    };
    server = FlightServer::start(std::move(options)).value();
  }

  [[nodiscard]] std::unique_ptr<Transport> client(const std::string& token = kToken) const {
    TransportOptions options;
    options.address = parse_address("grpc://127.0.0.1:" + std::to_string(server->port())).value();
    options.token = token;
    return make_transport(options).value();
  }

  std::atomic<int> taken = 0;
  std::atomic<uint64_t> bytes = 0;
  std::unique_ptr<FlightServer> server;
};

Parcel example(size_t bytes = 0) {
  Parcel parcel;
  parcel.job = "job";
  parcel.node = "n";
  if (bytes > 0) parcel.pieces = {{"events/rank-0-000000.arrows", 0, std::string(bytes, 'x')}};
  return parcel;
}

int connect_to(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST(Flight, brings_a_parcel_and_its_receipt) {
  const Server server;
  const auto client = server.client();
  for (const size_t bytes : {size_t{0}, size_t{100}, kParcelBytesMax}) {
    const auto receipt = client->send(example(bytes));
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
    EXPECT_EQ(receipt->collector, "n");
  }
  EXPECT_EQ(server.taken, 3);
  EXPECT_EQ(server.bytes, 100 + kParcelBytesMax);
}

TEST(Flight, refuses_a_wrong_token_before_it_looks_at_the_parcel) {
  const Server server;
  for (const char* token : {"another-token-of-tests", "a-token-of-testx", "a-token-of-test"}) {
    const auto receipt = server.client(token)->send(example());
    ASSERT_FALSE(receipt.ok());
    EXPECT_EQ(receipt.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(receipt.status().message().find("does not accept this token"), std::string::npos);
  }
  EXPECT_EQ(server.taken, 0);
  EXPECT_EQ(server.server->refused(), 3U);
}

TEST(Flight, goes_on_while_clients_stall_in_the_middle) {
  const Server server;
  // GIVEN connections that say nothing, and some that stop inside of the preface of HTTP/2
  std::vector<int> stalled;
  for (int i = 0; i < 100; ++i) {
    stalled.push_back(connect_to(server.server->port()));
    const size_t said = i % 2 == 0 ? 12 : 0;
    EXPECT_EQ(::send(stalled.back(), "PRI * HTTP/2", said, MSG_NOSIGNAL),
              static_cast<ssize_t>(said));
  }
  // THEN others are served
  const auto client = server.client();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->send(example(1000)).ok());
  for (const int fd : stalled) ::close(fd);
}

std::string frame(char type, char flags, const std::string& body) {
  const auto bytes = static_cast<uint32_t>(body.size());
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(bytes >> shift & 0xffU);
  const char stream = type == 4 ? 0 : 1;  // settings are of the connection
  return frame + type + flags + std::string(3, '\0') + stream + body;
}

// The beginning of a call with the right token, whose message is to have 1 MB and has ten bytes.
std::string half_a_call() {
  std::string headers;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {":method", "POST"},
           {":scheme", "http"},
           {":path", "/arrow.flight.protocol.FlightService/DoAction"},
           {":authority", "collector"},
           {"content-type", "application/grpc"},
           {"te", "trailers"},
           {kTokenHeader, std::string(kTokenPrefix) + kToken}}) {
    headers += '\0';  // a literal that is not indexed; both texts are shorter than 127
    headers += static_cast<char>(name.size()) + name;
    headers += static_cast<char>(value.size()) + value;
  }
  const std::string message = std::string("\0\0\x10\0\0", 5) + "0123456789";
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, "") + frame(1, 4, headers) +
         frame(0, 0, message);
}

TEST(Flight, goes_on_while_calls_stall_in_the_middle_of_their_parcel) {
  const Server server;
  // GIVEN more of them than are answered at once
  std::vector<int> stalled;
  const std::string half = half_a_call();
  for (int i = 0; i < 100; ++i) {
    stalled.push_back(connect_to(server.server->port()));
    EXPECT_EQ(::send(stalled.back(), half.data(), half.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(half.size()));
  }
  // Each has been understood so far: the server answers with its settings.
  for (const int fd : stalled) {
    char type[4] = {};
    EXPECT_EQ(::recv(fd, type, sizeof type, MSG_WAITALL), 4);
    EXPECT_EQ(type[3], 4);
  }
  // THEN others are served
  const auto client = server.client();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->send(example(1000)).ok());
  EXPECT_EQ(server.taken, 20);
  for (const int fd : stalled) ::close(fd);
}

TEST(Flight, a_client_comes_back_after_its_server_was_away) {
  auto server = std::make_unique<Server>();
  const int port = server->server->port();
  const auto client = server->client();
  ASSERT_TRUE(client->send(example()).ok());
  server.reset();
  const auto lost = client->send(example());
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.status().code(), StatusCode::kIoError);
  ServerOptions options;
  options.address = parse_address("grpc://127.0.0.1:" + std::to_string(port)).value();
  options.token = kToken;
  options.take = [](const Parcel&) -> Result<Receipt> { return Receipt(); };
  const auto again = FlightServer::start(std::move(options));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(client->send(example()).ok());
}

TEST(Flight, a_port_that_is_taken_is_an_error) {
  const Server server;
  ServerOptions options;
  options.address =
      parse_address("grpc://127.0.0.1:" + std::to_string(server.server->port())).value();
  options.token = kToken;
  options.take = [](const Parcel&) -> Result<Receipt> { return Receipt(); };
  // gRPC shares a port between servers unless it is told not to; then the kernel would deal out
  // the nodes between two collectors.
  EXPECT_FALSE(FlightServer::start(std::move(options)).ok());
}

}  // namespace
}  // namespace paramedic::nodes
