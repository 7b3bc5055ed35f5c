#include "supervise/restarts.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

// The copy has some files to put back and one fork to make.
constexpr int64_t kAnswerLimitNs = 30'000'000'000;

int64_t now_ns() { return real_clock().monotonic_ns(); }

// Why no snapshot of `page` can go on; "" where one can.
std::string obstacle(const SnapshotPage& page, const std::optional<Snapshot>& snapshot) {
  if (!snapshot) {
    const std::string reason = page.reason();
    return reason.empty() ? "it had no snapshot yet" : "it had no snapshot: " + reason;
  }
  if (!page.is_repeatable(*snapshot)) {
    return fmt::format("what it did after its snapshot at step {} cannot be repeated: {}",
                       snapshot->step, page.reason());
  }
  if (!is_running(snapshot->pid)) return "its snapshot is gone";
  return {};
}

}  // namespace

Restarts::~Restarts() {
  if (options_.limit > 0) remove_snapshots(options_.ring_dir, options_.run_id);
}

bool Restarts::begin(pid_t pid, int wait_status) {
  reason_.clear();
  current_.reset();
  if (options_.limit == 0 || !WIFSIGNALED(wait_status)) return false;
  const int signal = WTERMSIG(wait_status);
  if (signal == SIGTERM || signal == SIGINT) return false;
  auto page = SnapshotPage::open(options_.ring_dir, options_.run_id, pid);
  if (!page.ok()) return false;  // it was no training that we know of
  const auto snapshot = page->newest();
  std::string why = obstacle(*page, snapshot);
  if (why.empty() && count_ >= options_.limit) {
    why = fmt::format("it has gone on {} times already", count_);
  }
  if (!why.empty()) {
    reason_ = fmt::format("the job died of {} and does not go on: {}", signal_name(signal), why);
    return false;
  }
  current_.emplace(
      Current{std::move(page).value(), *snapshot, pid, wait_status, now_ns(), 0, false, false});
  return true;
}

bool Restarts::is_overdue() const {
  return is_ordered() && now_ns() - current_->died_ns > kAnswerLimitNs;
}

void Restarts::order() {
  current_->page.order(current_->snapshot);
  current_->is_ordered = true;
}

bool Restarts::is_answered() {
  if (!is_ordered() || !current_->page.answer(current_->snapshot).value_or(false)) return false;
  current_->goes_on = true;
  current_->took_ms = static_cast<double>(now_ns() - current_->died_ns) / 1e6;
  ++count_;
  return true;
}

void Restarts::give_up() {
  const std::string why = current_->page.reason();
  reason_ = fmt::format("the job died of {} and does not go on: {}",
                        signal_name(WTERMSIG(current_->wait_status)),
                        why.empty() ? "its snapshot died too" : why);
}

std::string Restarts::note() const {
  return fmt::format("the job died of {}; it goes on from step {} (restart {} of {})",
                     signal_name(WTERMSIG(current_->wait_status)), current_->snapshot.step, count_,
                     options_.limit);
}

Json Restarts::message() const {
  return {
      {"rank", current_->page.rank()},   {"pid", current_->dead},
      {"step", current_->snapshot.step}, {"signal", signal_name(WTERMSIG(current_->wait_status))},
      {"took_ms", current_->took_ms},    {"snapshot_ns", current_->snapshot.wall_ns}};
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace paramedic::supervise
