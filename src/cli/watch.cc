#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/program.h"
#include "cli/render_text.h"
#include "cli/runs.h"

namespace paramedic::cli {
namespace {

constexpr int kRefreshMs = 1000;
constexpr const char* kEnterScreen = "\x1b[?1049h\x1b[?25l";
constexpr const char* kLeaveScreen = "\x1b[?25h\x1b[?1049l";

// SIGINT and SIGTERM as a file descriptor, so that waiting for the next second ends at once.
class Interrupt {
 public:
  Interrupt() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &signals, &before_);
    fd_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt() {
    if (fd_ >= 0) ::close(fd_);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  // Whether a signal came within `milliseconds`.
  [[nodiscard]] bool wait(int milliseconds) const {
    pollfd poll{fd_, POLLIN, 0};
    return ::poll(&poll, 1, milliseconds) > 0;
  }

 private:
  int fd_ = -1;
  sigset_t before_{};
};

// The first `rows` lines of `text`, each cleared to its end, so that nothing flickers.
std::string screen_of(std::string_view text, int rows) {
  std::string screen = "\x1b[H";
  for (int row = 0; row < rows && !text.empty(); row++) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (row > 0) screen += "\r\n";
    screen += text.substr(0, end);
    screen += "\x1b[K";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return screen + "\x1b[J";
}

Result<Report> read_report(const std::string& folder, Console& console) {
  PARAMEDIC_ASSIGN(const auto reader, open_run(folder, console));
  return build_report(*reader, double(real_clock().wall_ns()) / 1e9);
}

bool is_over(const Report& report) {
  return report.info.status != "running" && report.info.status != "paused";
}

Result<Report> follow(const std::string& folder, Console& console) {
  const Interrupt interrupt;
  while (true) {
    Result<Report> report = read_report(folder, console);
    if (!report.ok() || is_over(*report)) return report;
    if (console.out_is_terminal) {
      // The window may have been resized since.
      const Console now = process_console();
      console.out << screen_of(render_text(*report, {now.width, console.color_out}), now.rows)
                  << std::flush;
    }
    if (interrupt.wait(kRefreshMs)) return report;
  }
}

Result<int> watch(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const std::string folder, find_run(posix_file_system(), arguments.text("dir"),
                                                      arguments.positional("RUN")));
  if (console.out_is_terminal) console.out << kEnterScreen;
  const Result<Report> report = follow(folder, console);
  if (console.out_is_terminal) console.out << kLeaveScreen << std::flush;
  if (!report.ok()) return report.status();
  console.out << render_text(*report, {console.width, console.color_out});
  return 0;
}

}  // namespace

Command watch_command() {
  Command command;
  command.name = "watch";
  command.summary = "the report, refreshed each second until the run ends";
  command.about =
      "Shows what `paramedic show` shows, again each second, until the run ends or Ctrl-C; the "
      "last "
      "report stays on the screen. The run itself is not touched. Without a terminal only the last "
      "report is printed.";
  command.options = {dir_option()};
  command.positionals = {{"RUN", "a name in --dir or a path; the newest run when left out"}};
  command.examples = {{"paramedic watch", "the newest run"}};
  command.run = watch;
  return command;
}

}  // namespace paramedic::cli
