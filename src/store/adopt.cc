#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/log.h"
#include "store/run.h"

namespace paramedic::store {
namespace {

// A writer that lives may fill its ring as fast as we empty it.
constexpr int kDrainsMax = 3;

bool all_of_class(std::string_view text, bool (*belongs)(char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), belongs);
}

// "PID-RING_ID.ring", what follows the run's id in the name of a ring: checked whole, since
// another run's id may begin as ours does.
bool is_ring_ending(std::string_view text) {
  constexpr std::string_view kEnding = ".ring";
  if (!text.ends_with(kEnding)) return false;
  text.remove_suffix(kEnding.size());
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  return all_of_class(text.substr(0, dash), [](char c) { return c >= '0' && c <= '9'; }) &&
         all_of_class(text.substr(dash + 1),
                      [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Field 22 of /proc/PID/stat (proc(5)); 0 when there is no such process. The command in field 2
// may hold anything, so fields are counted from its closing bracket.
uint64_t start_ticks_of(int pid) {
  const auto text = posix_file_system().read("/proc/" + std::to_string(pid) + "/stat");
  if (!text.ok()) return 0;
  size_t at = text->rfind(')');
  constexpr int kSpacesBefore = 20;
  for (int i = 0; i < kSpacesBefore && at != std::string::npos; i++) at = text->find(' ', at + 1);
  if (at == std::string::npos) return 0;
  uint64_t ticks = 0;
  std::from_chars(text->data() + at + 1, text->data() + text->size(), ticks);
  return ticks;
}

bool is_alive(int pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }

bool agent_is_alive(const RunInfo& info) {
  return is_alive(info.agent_pid) && start_ticks_of(info.agent_pid) == info.agent_start_ticks;
}

// Process numbers say something only on the machine that gave them.
bool ran_here(const RunInfo& info) {
  char name[256] = {};
  return info.host.empty() || ::gethostname(name, sizeof name - 1) != 0 || info.host == name;
}

bool is_open(const RunInfo& info) { return info.status == "running" || info.status == "paused"; }

// Held on the run folder while it is adopted; released with the process at the latest.
class FolderLock {
 public:
  explicit FolderLock(const std::string& dir)
      : fd_(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        held_(fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0) {}
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] bool held() const { return held_; }

 private:
  int fd_;
  bool held_;
};

void update_rank(RunInfo& info, const RingImporter::State& ring, bool writer_lives) {
  auto rank = std::find_if(info.ranks.begin(), info.ranks.end(),
                           [&](const RunInfo::Rank& its) { return its.rank == ring.rank; });
  if (rank == info.ranks.end()) {
    rank = info.ranks.emplace(rank);
    rank->rank = ring.rank;
    rank->pid = ring.pid;
    rank->host = info.host;
  }
  rank->last_step = std::max(rank->last_step, ring.last_step);
  rank->status = writer_lives ? "running" : ring.closed ? "finished" : "lost";
  info.steps = std::max(info.steps, rank->last_step + 1);
  info.world_size = std::max(info.world_size, ring.world_size);
  if (!info.overhead_percent && ring.last_step >= 0) info.overhead_percent = ring.overhead_percent;
}

class Adoption {
 public:
  Adoption(RunInfo info, RunWriter& writer) : info_(std::move(info)), writer_(writer) {}

  Status take(const std::string& path);
  Status finish();
  [[nodiscard]] bool took_any() const { return rings_ > 0; }

 private:
  RunInfo info_;
  RunWriter& writer_;
  int rings_ = 0;
  bool writer_lives_ = false;
  uint64_t dropped_records_ = 0;
  int64_t last_time_ns_ = 0;
};

Status Adoption::take(const std::string& path) {
  Result<std::unique_ptr<RingImporter>> opened = RingImporter::open(path, std::nullopt);
  if (!opened.ok()) {
    log::warn("{} is left as it is: {}", path, opened.status().message());
    return {};
  }
  RingImporter& importer = **opened;
  // Asked before the last drain, so that nothing can be written after it.
  const RingImporter::State before = importer.state();
  const bool lives = !before.closed && is_alive(before.pid);
  for (int i = 0; i < kDrainsMax; i++) {
    const Result<uint64_t> drained = importer.drain(writer_);
    if (!drained.ok()) {
      log::warn("{}", drained.status().message());
      info_.not_captured.emplace_back("records", drained.status().message());
    }
    PARAMEDIC_TRY(writer_.flush());
    importer.acknowledge();
    if (drained.ok() && *drained == 0) break;
  }
  const RingImporter::State state = importer.state();
  update_rank(info_, state, lives);
  rings_++;
  writer_lives_ |= lives;
  dropped_records_ += state.dropped_records;
  last_time_ns_ = std::max(last_time_ns_, state.last_step_time_ns);
  if (lives) return {};
  PARAMEDIC_TRY(writer_.seal());
  return posix_file_system().remove(path);
}

Status Adoption::finish() {
  PARAMEDIC_TRY(writer_.seal());
  info_.dropped_records = std::max(info_.dropped_records, dropped_records_);
  if (is_open(info_)) {
    info_.status = "lost";
    for (RunInfo::Rank& rank : info_.ranks) {
      if (rank.status == "running" && !is_alive(rank.pid)) rank.status = "lost";
    }
    if (!writer_lives_ && last_time_ns_ > 0) {
      info_.ended = static_cast<double>(last_time_ns_) / 1e9;
    }
  }
  for (const std::string& note : writer_.notes()) info_.not_captured.emplace_back("rows", note);
  return writer_.write_info(info_);
}

// What a run that could restart leaves beside its rings when its supervisor is killed. A copy of
// the job that stands by ends by itself.
void remove_snapshot_pages(const RunInfo& info) {
  const auto names = posix_file_system().list(info.ring_dir);
  if (!names.ok()) return;
  const std::string prefix = "paramedic-" + info.id;
  for (const std::string& name : *names) {
    const bool is_page = name == prefix + ".output" ||
                         (name.starts_with(prefix + "-") && name.ends_with(".snapshot"));
    if (is_page) (void)posix_file_system().remove(info.ring_dir + "/" + name);
  }
}

// The rings of a run that needs adopting; nothing when it does not.
std::optional<std::vector<std::string>> orphans_of(const RunInfo& info) {
  if (!ran_here(info) || agent_is_alive(info)) return std::nullopt;
  std::vector<std::string> rings = find_rings(info.ring_dir, info.id);
  if (rings.empty() && !is_open(info)) return std::nullopt;
  return rings;
}

}  // namespace

std::vector<std::string> find_rings(const std::string& ring_dir, const std::string& run_id) {
  std::vector<std::string> paths;
  const auto names = posix_file_system().list(ring_dir);
  if (!names.ok()) return paths;
  const std::string prefix = "paramedic-" + run_id + "-";
  for (const std::string& name : *names) {
    if (name.starts_with(prefix) && is_ring_ending(std::string_view(name).substr(prefix.size()))) {
      paths.push_back(ring_dir + "/" + name);
    }
  }
  return paths;
}

Result<bool> adopt_orphans(const std::string& dir) {
  {
    PARAMEDIC_ASSIGN(const auto reader, RunReader::open(dir));
    if (!orphans_of(reader->info())) return false;
  }
  const FolderLock lock(dir);
  if (!lock.held()) return false;
  // Again under the lock: another adopter may have been quicker.
  PARAMEDIC_ASSIGN(const auto reader, RunReader::open(dir));
  const auto rings = orphans_of(reader->info());
  if (!rings) return false;
  PARAMEDIC_ASSIGN(const auto writer,
                   RunWriter::resume(posix_file_system(), dir, WriterOptions(), real_clock()));
  Adoption adoption(reader->info(), *writer);
  for (const std::string& path : *rings) PARAMEDIC_TRY(adoption.take(path));
  if (!adoption.took_any() && !is_open(reader->info())) return false;
  PARAMEDIC_TRY(adoption.finish());
  remove_snapshot_pages(reader->info());
  return true;
}

}  // namespace paramedic::store
