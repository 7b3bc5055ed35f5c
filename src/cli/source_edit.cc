#include "cli/source_edit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/file.h"
#include "base/path.h"
#include "supervise/fd.h"

namespace paramedic::cli {
namespace {

constexpr size_t kDiffBytesMax = 4 << 20;

// A folder of its own, so that the copy keeps its name and the editor its highlighting.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* parent = std::getenv("TMPDIR");
    path_ = fmt::format("{}/paramedic-edit-XXXXXX", parent == nullptr ? "/tmp" : parent);
    is_made_ = ::mkdtemp(path_.data()) != nullptr;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    if (!is_made_) return;
    const auto names = posix_file_system().list(path_);
    if (names.ok()) {
      for (const std::string& name : *names) ::unlink((path_ + "/" + name).c_str());
    }
    ::rmdir(path_.c_str());
  }
  [[nodiscard]] bool is_made() const { return is_made_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_made_ = false;
};

// Starts a program that is looked for in PATH and answers its exit code, -1 when a signal ended it.
// `stdout_fd` -1: the terminal.
Result<int> run_program(std::vector<std::string> words, int stdout_fd) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (stdout_fd >= 0) ::posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return errno_error("cannot start", words[0], error);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return errno_error("cannot wait for", words[0], errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

Result<std::string> unified_diff(const std::string& before, const std::string& after,
                                 const std::string& path) {
  const ScratchFolder folder;
  if (!folder.is_made()) return io_error("cannot make a folder for a while in " + folder.path());
  const std::string output = folder.path() + "/diff";
  const supervise::Fd file(::open(output.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return errno_error("cannot create", output, errno);
  PARAMEDIC_ASSIGN(
      const int code,
      run_program({"diff", "-u", "-L", "a/" + path, "-L", "b/" + path, before, after}, file.get()));
  if (code != 0 && code != 1) return io_error("`diff` failed", "it is in the package diffutils");
  PARAMEDIC_ASSIGN(std::string text, posix_file_system().read(output));
  if (text.size() > kDiffBytesMax) return exhausted("the difference is too long");
  return text;
}

Result<std::string> edit_source(const std::string& path, int line, const std::string& editor) {
  FileSystem& files = posix_file_system();
  PARAMEDIC_ASSIGN(const std::string text, files.read(path));
  const ScratchFolder folder;
  if (!folder.is_made()) return io_error("cannot make a folder for a while in " + folder.path());
  const std::string copy = fmt::format("{}/{}", folder.path(), base_name(path));
  PARAMEDIC_TRY(files.write_atomically(copy, as_bytes(text)));
  // Through the shell, since EDITOR may hold options; the paths come as its arguments.
  const std::string call = fmt::format("{} +{} \"$1\"", editor, line);
  PARAMEDIC_ASSIGN(const int code, run_program({"sh", "-c", call, "sh", copy}, -1));
  if (code != 0) return io_error(fmt::format("the editor `{}` ended with code {}", editor, code));
  return unified_diff(path, copy, path);
}

}  // namespace paramedic::cli
