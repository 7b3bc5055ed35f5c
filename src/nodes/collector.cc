#include "nodes/collector.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/file.h"

namespace paramedic::nodes {
namespace {

constexpr int64_t kLookNs = 1'000'000'000;
constexpr size_t kJudgesMax = 200;

// Whether somebody has still to judge the job in `dir`.
bool is_open(const std::string& dir) {
  FileSystem& files = posix_file_system();
  if (!files.exists(dir + "/nodes")) return false;
  if (!files.exists(dir + "/run.json")) return true;
  const auto reader = store::RunReader::open(dir);
  if (!reader.ok()) return false;
  const std::string& status = (*reader)->info().status;
  return status == "running" || status == "paused";
}

}  // namespace

Collector::Collector(std::string dir, CollectorCallbacks callbacks, InboxLimits limits)
    : dir_(std::move(dir)),
      callbacks_(std::move(callbacks)),
      inbox_(dir_, limits),
      boards_(fmt::format("{}-{}", ::getpid(), real_clock().wall_ns())) {}

Result<Receipt> Collector::take(const Parcel& parcel) {
  const int64_t received_ns = real_clock().wall_ns();
  PARAMEDIC_ASSIGN(Receipt receipt, inbox_.take(parcel));
  boards_.fill(parcel, receipt);
  receipt.received_ns = received_ns;
  receipt.answered_ns = real_clock().wall_ns();
  return receipt;
}

void Collector::tick(int64_t now_ns) {
  if (looked_ns_ == 0 || now_ns - looked_ns_ >= kLookNs) {
    looked_ns_ = now_ns;
    find_jobs();
  }
  for (auto at = judges_.begin(); at != judges_.end();) {
    at->second->tick(now_ns);
    if (!at->second->is_over()) {
      ++at;
      continue;
    }
    over_.insert(at->first);
    at = judges_.erase(at);
  }
}

void Collector::find_jobs() {
  const auto names = posix_file_system().list(dir_);
  if (!names.ok()) return;
  for (const std::string& job : *names) {
    if (!is_plain_name(job) || judges_.contains(job) || over_.contains(job)) continue;
    const std::string dir = dir_ + "/" + job;
    if (judges_.size() >= kJudgesMax || !is_open(dir)) continue;
    auto judge = Judge::open(
        dir, boards_.of(job),
        {.finding = [this, job](const rules::Finding& found) { callbacks_.finding(job, found); },
         .note = callbacks_.note});
    if (judge.ok()) {
      callbacks_.note("collecting " + dir);
      judges_.emplace(job, std::move(judge).value());
    } else {
      callbacks_.note(judge.status().message());
      over_.insert(job);
    }
  }
}

}  // namespace paramedic::nodes
