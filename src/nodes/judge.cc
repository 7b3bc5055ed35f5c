#include "nodes/judge.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/file.h"
#include "base/path.h"
#include "cluster/watch.h"
#include "store/run_folder.h"

namespace paramedic::nodes {
namespace {

constexpr int64_t kJudgeNs = 500'000'000;
constexpr int64_t kWriteNs = 1'000'000'000;
// A node of which nothing has come for so long keeps the others waiting no more.
constexpr int64_t kSilentNs = 30'000'000'000;
// And after so long its end will not come any more.
constexpr int64_t kLostNs = 600'000'000'000;
constexpr size_t kPartsMax = 16'384;
// Of one part in one tick, so that a part with much to read does not stop the others.
constexpr int kSlicesMax = 16;
constexpr size_t kFindingsMax = 10'000;
constexpr size_t kNotCapturedMax = 1000;

// What a judge finds; the nodes' own findings stand in the same run.
bool is_ours(const std::string& id) {
  const auto& watches = cluster::watch_entries();
  return std::any_of(watches.begin(), watches.end(),
                     [&](const cluster::WatchEntry& watch) { return id == watch.info.id; });
}

uint64_t start_ticks_of_self() {
  const auto text = posix_file_system().read("/proc/self/stat");
  if (!text.ok()) return 0;
  // Field 22, counted from the bracket that closes the name.
  size_t at = text->rfind(')');
  for (int i = 0; i < 20 && at != std::string::npos; ++i) at = text->find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(text->c_str() + at, nullptr, 10);
}

store::RunInfo begin_info(const std::string& dir) {
  store::RunInfo info;
  info.dir = dir;
  info.id = base_name(dir);
  info.world_size = 0;
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) info.host = host;
  info.started = static_cast<double>(real_clock().wall_ns()) / 1e9;
  info.agent_pid = ::getpid();
  info.agent_start_ticks = start_ticks_of_self();
  return info;
}

bool is_running(const std::string& status) { return status == "running" || status == "paused"; }

// Of a job of several nodes: it runs as long as one does, and has failed where one has.
std::string worse(const std::string& a, const std::string& b) {
  static constexpr std::array<const char*, 6> kWorst = {"paused",  "running", "failed",
                                                        "stopped", "lost",    "finished"};
  const auto place = [](const std::string& status) {
    return std::find(kWorst.begin(), kWorst.end(), status) - kWorst.begin();
  };
  return place(a) <= place(b) ? a : b;
}

}  // namespace

// Held on the folder; released with the process at the latest.
struct Judge::Lock {
  explicit Lock(const std::string& path)
      : fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

Result<std::unique_ptr<Judge>> Judge::open(const std::string& dir, Board& board,
                                           JudgeCallbacks callbacks) {
  FileSystem& files = posix_file_system();
  PARAMEDIC_TRY(files.make_folders(dir));
  auto lock = std::make_unique<Lock>(dir + "/collector.lock");
  if (lock->fd < 0) return errno_error("cannot write", dir + "/collector.lock", errno);
  // A file system without locks has none to respect.
  if (::flock(lock->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return exhausted("another collector judges " + dir);
  }
  store::RunInfo info = begin_info(dir);
  const std::string path = dir + "/run.json";
  std::vector<store::FindingRow> known;
  if (files.exists(path)) {
    PARAMEDIC_ASSIGN(const auto reader, store::RunReader::open(dir));
    info.started = reader->info().started;
    PARAMEDIC_ASSIGN(known, reader->read_findings());
  }
  PARAMEDIC_TRY(files.write_atomically(path, as_bytes(to_text(info.to_json()))));
  PARAMEDIC_ASSIGN(auto writer, store::RunWriter::resume(files, dir, {}, real_clock()));
  std::unique_ptr<Judge> judge(
      new Judge(std::move(lock), std::move(info), std::move(writer), board, std::move(callbacks)));
  for (const store::FindingRow& row : known) {
    const auto json = parse_json(row.json, "a finding");
    if (!json.ok()) continue;
    if (auto finding = rules::Finding::from_json(*json); finding.ok() && is_ours(finding->id)) {
      judge->findings_.emplace(row.key, std::move(finding).value());
      board.post(row.key, *json);
    }
  }
  return judge;
}

Judge::Judge(std::unique_ptr<Lock> lock, store::RunInfo info,
             std::unique_ptr<store::RunWriter> writer, Board& board, JudgeCallbacks callbacks)
    : lock_(std::move(lock)),
      info_(std::move(info)),
      writer_(std::move(writer)),
      board_(board),
      callbacks_(std::move(callbacks)),
      cluster_(cluster::Cluster::create(*this)) {}

Judge::~Judge() = default;

void Judge::tick(int64_t now_ns) {
  if (is_over_) return;
  find_parts();
  const bool has_read_all = read_parts(now_ns);
  watch_silence(now_ns);
  if (has_read_all && now_ns - judged_ns_ >= kJudgeNs) {
    judged_ns_ = now_ns;
    judge(now_ns);
  }
  if (now_ns - written_ns_ < kWriteNs) return;
  written_ns_ = now_ns;
  update_info();
  tell_clocks();
  write();
}

void Judge::find_parts() {
  for (std::string& folder : store::part_folders(info_.dir)) {
    if (parts_.size() >= kPartsMax) return;
    if (parts_.contains(folder)) continue;
    const std::string name = folder;
    parts_.try_emplace(std::move(folder), name, *cluster_, shares_);
  }
}

// Answers whether every part has been read to where it speaks of.
bool Judge::read_parts(int64_t now_ns) {
  bool has_read_all = true;
  for (auto& [folder, part] : parts_) {
    part.read(now_ns, kSlicesMax);
    has_read_all = has_read_all && !part.has_more();
  }
  return has_read_all;
}

bool Judge::is_silent(const Part& part, int64_t now_ns) const {
  return !part.is_done() && now_ns - part.heard_ns() > kSilentNs;
}

void Judge::watch_silence(int64_t now_ns) {
  for (const auto& [folder, part] : parts_) {
    bool& told = silent_[part.node()];
    const bool silent = is_silent(part, now_ns);
    if (silent == told) continue;
    told = silent;
    callbacks_.note(silent ? fmt::format("nothing has come from {} for {} s: the job is judged "
                                         "without its newest rows",
                                         part.node(), kSilentNs / 1'000'000'000)
                           : fmt::format("{} is heard of again", part.node()));
    if (!silent || info_.not_captured.size() >= kNotCapturedMax) continue;
    info_.not_captured.emplace_back("rows of " + part.node(),
                                    "nothing has come from it for a while");
  }
}

// Of a rank that was started again on another node, or by another `paramedic run`, the newest.
void Judge::gather_processes() {
  std::vector<const Part*> by_start;
  for (const auto& [folder, part] : parts_) by_start.push_back(&part);
  const auto start_of = [](const Part* part) { return part->info() ? part->info()->started : 0; };
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](const Part* a, const Part* b) { return start_of(a) < start_of(b); });
  std::map<int32_t, const cluster::RankProcess*> newest;
  for (const Part* part : by_start) {
    for (const auto& process : part->processes()) newest[process.rank] = &process;
  }
  moment_.processes.clear();
  for (const auto& [rank, process] : newest) moment_.processes.push_back(*process);
}

// The time of the look is that up to which all nodes have told: what one of them has not told yet
// would look like ranks that do not come.
void Judge::judge(int64_t now_ns) {
  int64_t until_ns = INT64_MAX;
  int64_t newest_ns = 0;
  bool are_done = !parts_.empty();
  for (const auto& [folder, part] : parts_) {
    newest_ns = std::max(newest_ns, part.told_until_ns());
    if (part.is_done() || now_ns - part.heard_ns() > kLostNs) continue;
    are_done = false;
    if (!is_silent(part, now_ns)) until_ns = std::min(until_ns, part.told_until_ns());
  }
  if (until_ns == INT64_MAX) until_ns = newest_ns;
  gather_processes();
  moment_.time_ns = std::max(moment_.time_ns, until_ns);
  if (moment_.time_ns > 0) {
    cluster_->tick(moment_);
    shares_.settings.tick(moment_.time_ns, settings_report());
  }
  for (const auto& [folder, part] : parts_) {
    if (part.is_done() && part.told_until_ns() <= moment_.time_ns) board_.settle(part.node());
  }
  if (are_done) finish();
}

void Judge::update_info() {
  info_.ranks.clear();
  std::string status = "finished";
  for (const auto& [folder, part] : parts_) {
    if (!part.info()) {
      status = worse(status, is_over_ ? "lost" : "running");
      continue;
    }
    const store::RunInfo& its = *part.info();
    status = worse(status, is_over_ && is_running(its.status) ? "lost" : its.status);
    if (info_.command.empty()) info_.command = its.command;
    if (info_.cwd.empty()) info_.cwd = its.cwd;
    if (info_.framework.empty()) info_.framework = its.framework;
    info_.started = std::min(info_.started, its.started);
    info_.world_size = std::max(info_.world_size, its.world_size);
    info_.steps = std::max(info_.steps, its.steps);
    if (its.overhead_percent) {
      info_.overhead_percent = std::max(info_.overhead_percent.value_or(0), *its.overhead_percent);
    }
    info_.ranks.insert(info_.ranks.end(), its.ranks.begin(), its.ranks.end());
    // Who failed first is the cause of the others' end.
    const bool is_first = its.status == "failed" && its.ended && !its.failure.is_null() &&
                          (!info_.ended || *its.ended < *info_.ended);
    if (is_first || (info_.failure.is_null() && !its.failure.is_null())) {
      info_.failure = its.failure;
      info_.exit_code = its.exit_code;
      info_.signal = its.signal;
      info_.ended = its.ended;
    }
  }
  std::stable_sort(info_.ranks.begin(), info_.ranks.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
  info_.status = parts_.empty() ? "running" : is_over_ ? status : worse(status, "running");
}

// Once for each node, and again when it has moved.
void Judge::tell_clocks() {
  for (const auto& [folder, part] : parts_) {
    if (!part.clock()) continue;
    const double offset_ms = static_cast<double>(part.clock()->offset_ns) / 1e6;
    std::string& told = told_clocks_[part.node()];
    std::string text = fmt::format("{:.0f}", offset_ms);
    if (text == told) continue;
    told = std::move(text);
    store::EventRow row;
    row.origin.time_ns = real_clock().wall_ns();
    row.kind = "node";
    Json ranks = Json::array();
    for (const auto& process : part.processes()) ranks.push_back(process.rank);
    row.json = to_text({{"node", part.node()},
                        {"host", part.info() ? part.info()->host : ""},
                        {"ranks", std::move(ranks)},
                        {"clock_offset_ms", offset_ms},
                        {"clock_error_ms", static_cast<double>(part.clock()->error_ns) / 1e6}});
    writer_->on_event(row);
  }
}

void Judge::write() {
  note_write_failure(writer_->flush());
  std::string text = to_text(info_.to_json());
  if (text == written_info_) return;
  const Status status = writer_->write_info(info_);
  if (status.ok()) written_info_ = std::move(text);
  note_write_failure(status);
}

NodeSettings::Report Judge::settings_report() {
  return [this](const std::string& key, rules::Finding finding) {
    finding.time = static_cast<double>(moment_.time_ns) / 1e9;
    on_finding(key, finding);
  };
}

void Judge::finish() {
  cluster_->finish();
  shares_.settings.finish(settings_report());
  is_over_ = true;
  tell_clocks();
  update_info();
  if (!info_.ended) {
    for (const auto& [folder, part] : parts_) {
      if (part.info() && part.info()->ended) {
        info_.ended = std::max(info_.ended.value_or(0), *part.info()->ended);
      }
    }
  }
  note_write_failure(writer_->seal());
  write();
  callbacks_.note(fmt::format("the job {} is over: {}", info_.id, info_.status));
}

void Judge::on_finding(const std::string& key, const rules::Finding& finding) {
  rules::Finding told = finding;
  const auto known = findings_.find(key);
  const bool is_new = known == findings_.end();
  if (is_new && findings_.size() >= kFindingsMax) return;
  const bool is_worse = is_new || finding.severity > known->second.severity;
  // After a restart everything is found again.
  if (!is_new) told.time = std::min(told.time, known->second.time);
  const Json json = told.to_json();
  if (!is_new && json == known->second.to_json()) return;
  findings_.insert_or_assign(key, told);
  store::FindingRow row;
  row.time_ns = real_clock().wall_ns();
  row.rank = told.rank.value_or(0);
  row.key = key;
  row.json = to_text(json);
  writer_->on_finding(row);
  board_.post(key, json);
  if (is_worse) callbacks_.finding(told);
}

void Judge::note_write_failure(const Status& status) {
  if (status.ok()) {
    write_failed_ = false;
  } else if (!std::exchange(write_failed_, true)) {
    callbacks_.note("not everything could be written: " + status.message());
  }
}

}  // namespace paramedic::nodes
