#include "cli/follow.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "base/clock.h"
#include "base/lines.h"
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
    if (row > 0) screen += "\r\n";
    screen += take_line(text);
    screen += "\x1b[K";
  }
  return screen + "\x1b[J";
}

Result<Report> read_report(const std::string& folder, Console& console) {
  PARAMEDIC_ASSIGN(const auto reader, open_run(folder, console));
  return build_report(*reader, double(real_clock().wall_ns()) / 1e9);
}

// The other screen of the terminal, so that what stood on the first one stays.
class OtherScreen {
 public:
  explicit OtherScreen(Console& console) : console_(console) {
    if (console_.out_is_terminal) console_.out << kEnterScreen;
  }
  OtherScreen(const OtherScreen&) = delete;
  OtherScreen& operator=(const OtherScreen&) = delete;
  ~OtherScreen() {
    if (console_.out_is_terminal) console_.out << kLeaveScreen << std::flush;
  }

 private:
  Console& console_;
};

}  // namespace

bool is_over(const Report& report) {
  return report.info.status != "running" && report.info.status != "paused";
}

Result<Followed> follow_run(const std::string& folder, Console& console,
                            const std::function<bool(const Report&)>& is_enough) {
  const OtherScreen screen(console);
  const Interrupt interrupt;
  while (true) {
    PARAMEDIC_ASSIGN(Report report, read_report(folder, console));
    if (is_enough(report)) return Followed{std::move(report), false};
    if (console.out_is_terminal) {
      // The window may have been resized since.
      const Console now = process_console();
      console.out << screen_of(render_text(report, {now.width, console.color_out}), now.rows)
                  << std::flush;
    }
    if (interrupt.wait(kRefreshMs)) return Followed{std::move(report), true};
  }
}

}  // namespace paramedic::cli
