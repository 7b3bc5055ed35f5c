#include "supervise/notifier.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "supervise/fd.h"

namespace paramedic::supervise {
namespace {

// Many ranks may pause at once; who does not answer must not keep a process of ours each time.
constexpr size_t kRunningMax = 8;
constexpr const char* kTimeoutS = "20";

bool is_url(const std::string& target) {
  return target.starts_with("http://") || target.starts_with("https://");
}

std::vector<std::string> words_for(const std::string& target) {
  if (!is_url(target)) return {"sh", "-c", target};
  return {
      "curl",          "--silent",   "--show-error", "--fail",   "--output",
      "/dev/null",     "--max-time", kTimeoutS,      "--header", "Content-Type: application/json",
      "--data-binary", "@-",         "--url",        target};
}

// A file without a name: a pipe could fill, and nobody here waits for its reader.
Result<Fd> file_with(const std::string& text) {
  Fd file(::memfd_create("paramedic-notify", MFD_CLOEXEC));
  if (!file.valid()) return errno_error("cannot make", "a file in memory", errno);
  if (const int error = write_all(file.get(), text); error != 0) {
    return errno_error("cannot write", "a file in memory", error);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace

Status Notifier::tell(const Json& what) {
  if (target_.empty()) return {};
  reap();
  if (running_.size() >= kRunningMax) return exhausted("too many notifications are under way");
  PARAMEDIC_ASSIGN(const Fd input, file_with(to_text(what) + "\n"));
  std::vector<std::string> words = words_for(target_);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return errno_error("nobody is notified: cannot start", words[0], error);
  running_.push_back(pid);
  return {};
}

void Notifier::reap() {
  std::erase_if(running_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

}  // namespace paramedic::supervise
