#include "supervise/courier_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "nodes/address.h"

namespace paramedic::supervise {
namespace {

// The end of a run is not put off for longer than this.
constexpr int kFinishMs = 2000;
constexpr const char* kProgram = "/proc/self/exe";

// In a session of its own, with the signals of any program; the standard streams are given.
int spawn(const std::vector<std::string>& words, int out_fd, int error_fd) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, error_fd, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, kProgram, &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Two jobs of one machine, and two attempts of one job, are different nodes.
std::string node_name(const std::string& host, const std::string& run_id) {
  constexpr size_t kHostBytesMax = 80;
  std::string name;
  for (const char c : host.substr(0, kHostBytesMax)) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    name += is_plain || (c == '.' && !name.empty()) ? c : '_';
  }
  constexpr size_t kIdBytes = 6;
  return fmt::format("{}-{}", name.empty() ? "node" : name, run_id.substr(0, kIdBytes));
}

}  // namespace

CourierProcess::CourierProcess(const CollectorOptions& options, std::string runs_dir,
                               Callbacks callbacks)
    : options_(options), runs_dir_(std::move(runs_dir)), callbacks_(std::move(callbacks)) {}

void CourierProcess::start(const std::string& run_dir, const std::string& run_id,
                           const std::string& host) {
  auto sockets = make_socket_pair();
  if (!sockets.ok()) return callbacks_.note("no collector: " + sockets.status().message());
  std::vector<std::string> words = {"paramedic",  "courier",        run_dir,
                                    "--to",       options_.address, "--job",
                                    options_.job, "--node",         node_name(host, run_id)};
  if (!options_.token_file.empty()) {
    words.insert(words.end(), {"--token-file", options_.token_file});
  }
  if (!options_.tls_roots.empty()) words.insert(words.end(), {"--tls-roots", options_.tls_roots});
  const Fd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const int error = spawn(words, sockets->second.get(), nowhere.get());
  if (error != 0) {
    return callbacks_.note("no collector: " +
                           errno_error("cannot start", "the courier", error).message());
  }
  messages_ = MessageSocket(std::move(sockets->first));
}

void CourierProcess::start_collector(const std::string& run_dir) {
  if (!options_.starts_one || std::exchange(has_started_collector_, true)) return;
  auto address = nodes::parse_address(options_.address);
  if (!address.ok()) return callbacks_.note(address.status().message());
  std::vector<std::string> words = {"paramedic", "collector", "--until-end"};
  if (address->folder.empty()) {
    // The name in the address is how others find this machine, not always one of its own.
    if (address->is_port()) address->host = "0.0.0.0";
    words.insert(words.end(), {"--dir", runs_dir_, "--listen", address->text()});
  } else {
    words.insert(words.end(), {"--dir", address->folder});
  }
  if (!options_.token_file.empty()) {
    words.insert(words.end(), {"--token-file", options_.token_file});
  }
  const std::string log = run_dir + "/logs";
  ::mkdir(log.c_str(), 0700);
  const std::string path = log + "/collector.log";
  const Fd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const int error = spawn(words, out.get(), out.get());
  if (error != 0) {
    callbacks_.note(errno_error("cannot start", "the collector", error).message());
  }
}

void CourierProcess::serve() {
  while (auto message = messages_.receive()) take(*message);
}

void CourierProcess::take(const Json& message) {
  if (const std::string note = string_or(message, "note", ""); !note.empty()) {
    callbacks_.note(note);
    return;
  }
  const auto found = message.find("finding");
  if (found == message.end()) return;
  auto finding = rules::Finding::from_json(*found);
  if (finding.ok()) callbacks_.finding(string_or(message, "key", ""), *finding);
}

void CourierProcess::finish() {
  const int64_t deadline_ns = real_clock().monotonic_ns() + int64_t{kFinishMs} * 1'000'000;
  while (messages_.is_open() && real_clock().monotonic_ns() < deadline_ns) {
    const int64_t left_ms = (deadline_ns - real_clock().monotonic_ns()) / 1'000'000;
    if (auto message = messages_.wait_for_message(static_cast<int>(left_ms) + 1)) take(*message);
  }
}

}  // namespace paramedic::supervise
