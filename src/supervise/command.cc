#include "supervise/command.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace paramedic::supervise {
namespace {

// "KEY=VALUE" of what is inherited, with `changes` in place of what they change.
std::vector<std::string> merged_environment(const Environment& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view key = text.substr(0, text.find('='));
    bool changed = false;
    for (const auto& change : changes) changed = changed || change.first == key;
    if (!changed) merged.emplace_back(text);
  }
  for (const auto& [key, value] : changes) merged.push_back(fmt::format("{}={}", key, value));
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

struct Prepared {
  char** argv;
  char** environment;
  int stdout_fd;
  int stderr_fd;
  int failure_fd;
};

[[noreturn]] void become(const Prepared& prepared, const SignalGuard& signals) {
  ::setpgid(0, 0);
  if (prepared.stdout_fd >= 0) ::dup2(prepared.stdout_fd, STDOUT_FILENO);
  if (prepared.stderr_fd >= 0) ::dup2(prepared.stderr_fd, STDERR_FILENO);
  signals.restore();
  environ = prepared.environment;
  ::execvp(prepared.argv[0], prepared.argv);
  const int error_number = errno;
  (void)!::write(prepared.failure_fd, &error_number, sizeof error_number);
  ::_exit(127);
}

}  // namespace

Result<Started> start_command(const CommandOptions& options, const SignalGuard& signals) {
  PARAMEDIC_CHECK(!options.argv.empty());
  std::vector<std::string> argv = options.argv;
  std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> argv_pointers = pointers(argv);
  const std::vector<char*> environment_pointers = pointers(environment);
  // Closed by a successful exec; carries errno of a failed one.
  PARAMEDIC_ASSIGN(FdPair failure, make_pipe());
  const Prepared prepared{const_cast<char**>(argv_pointers.data()),
                          const_cast<char**>(environment_pointers.data()), options.stdout_fd,
                          options.stderr_fd, failure.second.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error("cannot start a process for", options.argv[0], errno);
  if (pid == 0) become(prepared, signals);
  // In both processes, since neither knows which of them runs first.
  ::setpgid(pid, pid);
  failure.second.reset();
  int error_number = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure.first.get(), &error_number, sizeof error_number);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof error_number) return Started{pid, 0};
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return Started{0, error_number};
}

ExecFailure exec_failure(const std::string& command, int error_number) {
  const bool searched = command.find('/') == std::string::npos;
  if (error_number == ENOENT && searched) return {127, command + ": command not found"};
  return {error_number == ENOENT ? 127 : 126, command + ": " + ::strerror(error_number)};
}

}  // namespace paramedic::supervise
