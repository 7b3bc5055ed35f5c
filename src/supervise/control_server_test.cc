// The control socket with real sockets: clients in this process, one after the other, since the
// kernel keeps what they send; in processes of their own where they wait or are someone else.
#include "supervise/control_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "supervise/control_client.h"
#include "supervise/job_harness.h"

namespace paramedic::supervise {
namespace {

using record::ControlMessage;
using record::ControlType;

constexpr int kPatienceMs = 60'000;  // no test ends by it
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr uid_t kNobody = 65534;

std::string bytes_of(const ControlMessage& message) {
  return record::encode_control(message).value();
}

std::string flush_request() {
  return bytes_of(record::hello_message(1)) + bytes_of(record::flush_message());
}

// A client that does not wait: it reads what is there.
class Client {
 public:
  explicit Client(const std::string& path) {
    fd_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    PARAMEDIC_CHECK(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    is_connected_ =
        ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  [[nodiscard]] bool is_connected() const { return is_connected_; }
  // Whether all of it found room.
  [[nodiscard]] bool send(const std::string& bytes) const {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // What has come since the last call.
  std::vector<ControlMessage> receive() {
    std::vector<ControlMessage> messages;
    std::byte bytes[4096];
    while (true) {
      const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (got <= 0) {
        is_hung_up_ = got == 0 || errno == ECONNRESET;
        return messages;
      }
      const Status status =
          decoder_.feed(Bytes(bytes, static_cast<size_t>(got)),
                        [&](const ControlMessage& message) { messages.push_back(message); });
      PARAMEDIC_CHECK(status.ok());
    }
  }
  // Known after `receive`.
  [[nodiscard]] bool is_hung_up() const { return is_hung_up_; }
  void hang_up() { fd_.reset(); }

 private:
  Fd fd_;
  bool is_connected_ = false;
  bool is_hung_up_ = false;
  record::ControlDecoder decoder_;
};

class ControlServerTest : public testing::Test {
 protected:
  ControlServerTest() { start(); }

  void start() {
    server_ =
        std::make_unique<ControlServer>(folder_.path(), [this] { return 40 + flushes_++; }, clock_);
  }
  [[nodiscard]] std::string path() const { return folder_.path() + "/control.sock"; }

  // Serves until `pid` has ended; answers its exit code.
  int serve_until_exit(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
      pollfd ready{server_->fd(), POLLIN, 0};
      ::poll(&ready, 1, 10);
      server_->serve();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // A new client is still served.
  void expect_works() {
    clock_.advance(kSecondNs);
    Client client(path());
    ASSERT_TRUE(client.is_connected() && client.send(flush_request()));
    server_->serve();
    const auto answers = client.receive();
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[1].type, ControlType::kDone);
  }

  TemporaryFolder folder_;
  VirtualClock clock_;
  int64_t flushes_ = 0;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(ControlServerTest, flush_is_done_and_answered_with_the_newest_step) {
  Client client(path());
  ASSERT_TRUE(client.send(flush_request()));
  pollfd ready{server_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 1);
  server_->serve();
  const auto answers = client.receive();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].type, ControlType::kHello);
  EXPECT_EQ(integer_or(answers[0].fields, "pid", 0), ::getpid());
  EXPECT_EQ(answers[1].type, ControlType::kDone);
  EXPECT_EQ(integer_or(answers[1].fields, "last_step", 0), 40);
  EXPECT_EQ(flushes_, 1);
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

TEST_F(ControlServerTest, request_that_comes_byte_by_byte_is_answered) {
  Client client(path());
  for (const char byte : flush_request()) {
    ASSERT_TRUE(client.send(std::string(1, byte)));
    server_->serve();
  }
  EXPECT_EQ(client.receive().size(), 2U);
}

TEST_F(ControlServerTest, clients_that_ask_without_pause_share_a_flush) {
  Client first(path());
  Client second(path());
  ASSERT_TRUE(first.send(flush_request()) && second.send(flush_request()));
  server_->serve();
  EXPECT_EQ(first.receive().size(), 2U);
  EXPECT_EQ(second.receive().size(), 2U);
  EXPECT_EQ(flushes_, 1);

  ASSERT_TRUE(first.send(bytes_of(record::flush_message())));
  server_->serve();
  EXPECT_EQ(first.receive().size(), 0U);
  clock_.advance(kSecondNs);
  server_->serve();
  EXPECT_EQ(first.receive().size(), 1U);
  EXPECT_EQ(flushes_, 2);
}

TEST_F(ControlServerTest, garbage_is_refused_and_hurts_nobody_else) {
  Client client(path());
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  server_->serve();
  const auto answers = client.receive();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].type, ControlType::kError);
  EXPECT_TRUE(client.is_hung_up());
  expect_works();
}

TEST_F(ControlServerTest, message_out_of_turn_is_refused) {
  for (const std::string& bytes :
       {bytes_of(record::flush_message()), bytes_of(record::done_message(1)),
        bytes_of(record::hello_message(1)) + bytes_of(record::done_message(1))}) {
    Client client(path());
    ASSERT_TRUE(client.send(bytes));
    server_->serve();
    const auto answers = client.receive();
    ASSERT_FALSE(answers.empty());
    EXPECT_EQ(answers.back().type, ControlType::kError);
    EXPECT_TRUE(client.is_hung_up());
  }
  EXPECT_EQ(flushes_, 0);
}

TEST_F(ControlServerTest, client_that_hangs_after_half_a_message_is_dropped) {
  Client client(path());
  ASSERT_TRUE(client.send(flush_request().substr(0, 20)));
  server_->serve();
  expect_works();
  EXPECT_EQ(client.receive().size(), 0U);
  EXPECT_FALSE(client.is_hung_up());
  clock_.advance(60 * kSecondNs);
  server_->serve();
  EXPECT_EQ(client.receive().size(), 0U);
  EXPECT_TRUE(client.is_hung_up());
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(ControlServerTest, client_that_is_gone_before_its_answer_is_forgotten) {
  Client client(path());
  ASSERT_TRUE(client.send(flush_request()));
  client.hang_up();
  server_->serve();
  server_->serve();
  EXPECT_EQ(server_->connections(), 0U);
  expect_works();
}

TEST_F(ControlServerTest, client_that_never_reads_is_dropped) {
  Client client(path());
  const std::string hello = bytes_of(record::hello_message(1));
  constexpr int kTriesMax = 100'000;
  int tries = 0;
  while (client.send(hello) && tries++ < kTriesMax) server_->serve();
  EXPECT_LT(tries, kTriesMax);
  EXPECT_EQ(server_->connections(), 0U);
  expect_works();
}

TEST_F(ControlServerTest, clients_beyond_the_limit_are_turned_away) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<Client>(path()));
    server_->serve();
  }
  EXPECT_EQ(server_->connections(), 16U);
  clients.clear();
  server_->serve();
  EXPECT_EQ(server_->connections(), 0U);
  expect_works();
}

TEST_F(ControlServerTest, socket_is_private_and_removed_at_the_end) {
  struct stat file{};
  ASSERT_EQ(::lstat(path().c_str(), &file), 0);
  EXPECT_TRUE(S_ISSOCK(file.st_mode));
  EXPECT_EQ(file.st_mode & 0777U, 0600U);
  Client client(path());
  server_->serve();
  server_.reset();
  client.receive();
  EXPECT_TRUE(client.is_hung_up());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(ControlServerTest, second_server_in_a_folder_leaves_the_first_alone) {
  {
    ControlServer second(folder_.path(), [] { return int64_t{0}; }, clock_);
    EXPECT_EQ(second.fd(), -1);
    second.serve();
  }
  expect_works();
}

TEST_F(ControlServerTest, folder_that_does_not_exist_makes_a_server_that_does_nothing) {
  ControlServer server(folder_.path() + "/nowhere", [] { return int64_t{0}; }, clock_);
  EXPECT_EQ(server.fd(), -1);
  server.serve();
}

TEST_F(ControlServerTest, other_users_are_hung_up_on) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become someone else";
  // Let him through to the socket, which the folder's mode would not.
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path().c_str(), 0666), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::setuid(kNobody) != 0) ::_exit(1);
    Client client(path());
    if (!client.is_connected()) ::_exit(2);
    (void)client.send(flush_request());  // may be too late already
    int tries = 0;
    while (tries++ < 600 && client.receive().empty() && !client.is_hung_up()) {
      ::poll(nullptr, 0, 100);
    }
    ::_exit(client.is_hung_up() ? 0 : 3);
  }
  EXPECT_EQ(serve_until_exit(pid), 0);
  EXPECT_EQ(flushes_, 0);
}

TEST_F(ControlServerTest, request_flush_returns_once_the_flush_is_done) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(request_flush(folder_.path(), kPatienceMs).ok() ? 0 : 1);
  EXPECT_EQ(serve_until_exit(pid), 0);
  EXPECT_EQ(flushes_, 1);
}

TEST(ControlPath, path_longer_than_a_socket_address_is_no_limit) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/" + std::string(200, 'd') + "/" + std::string(50, 'e');
  ASSERT_TRUE(std::filesystem::create_directories(dir));
  const pid_t pid = ::fork();
  if (pid == 0) {
    bool is_flushed = false;
    ControlServer server(dir, [&] { return is_flushed = true; });
    while (!is_flushed) {
      pollfd ready{server.fd(), POLLIN, 0};
      ::poll(&ready, 1, 100);
      server.serve();
    }
    ::_exit(0);
  }
  // The server may not be there yet.
  const int64_t deadline_ns = real_clock().monotonic_ns() + kPatienceMs * int64_t{1'000'000};
  Status status;
  do {
    status = request_flush(dir, kPatienceMs);
  } while (!status.ok() && real_clock().monotonic_ns() < deadline_ns);
  EXPECT_TRUE(status.ok()) << status.message();
  int exit_status = 0;
  ASSERT_EQ(::waitpid(pid, &exit_status, 0), pid);
  EXPECT_EQ(exit_status, 0);
}

TEST(RequestFlush, run_without_an_agent_is_answered_at_once) {
  const TemporaryFolder folder;
  EXPECT_EQ(request_flush(folder.path(), kPatienceMs).code(), StatusCode::kNotFound);
  write_file(folder.path() + "/control.sock", "no socket");
  EXPECT_EQ(request_flush(folder.path(), kPatienceMs).code(), StatusCode::kIoError);
}

TEST(RequestFlush, agent_that_was_killed_is_noticed_at_once) {
  const TemporaryFolder folder;
  const pid_t pid = ::fork();
  if (pid == 0) {
    const ControlServer server(folder.path(), [] { return int64_t{0}; });
    ::_exit(0);  // as after kill -9, the file stays
  }
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  ASSERT_TRUE(std::filesystem::exists(folder.path() + "/control.sock"));
  EXPECT_EQ(request_flush(folder.path(), kPatienceMs).code(), StatusCode::kIoError);
}

TEST(RequestFlush, agent_that_does_not_answer_is_not_waited_for) {
  const TemporaryFolder folder;
  const ControlServer server(folder.path(), [] { return int64_t{0}; });
  EXPECT_EQ(request_flush(folder.path(), 20).code(), StatusCode::kExhausted);
}

TEST(RequestFlush, link_to_a_socket_elsewhere_is_not_followed) {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  const ControlServer server(elsewhere.path(), [] { return int64_t{0}; });
  std::filesystem::create_symlink(elsewhere.path() + "/control.sock",
                                  folder.path() + "/control.sock");
  EXPECT_EQ(request_flush(folder.path(), kPatienceMs).code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace paramedic::supervise
