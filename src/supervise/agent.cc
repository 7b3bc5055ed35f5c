#include "supervise/agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/path.h"
#include "nodes/look.h"
#include "supervise/look.h"
#include "supervise/post_mortem.h"
#include "supervise/process.h"
#include "supervise/way_in.h"

namespace paramedic::supervise {
namespace {

constexpr int64_t kSampleNs = 1'000'000'000;
// A rank that hangs is named within seconds.
constexpr int64_t kCompareNs = 500'000'000;
// Twice a second, so that what is older than a second is stored even when the machine is busy.
constexpr int64_t kFlushNs = 500'000'000;
constexpr int64_t kInfoNs = 2'000'000'000;
// A ring that is fuller than this is given room before the second is over.
constexpr double kFullEnough = 0.5;
constexpr int kFolderTriesMax = 100;
constexpr size_t kNotCapturedMax = 1000;
constexpr size_t kNotesMax = 100;

// Two runs that start in the same second choose the same name; the second one takes a number.
Result<std::unique_ptr<store::RunWriter>> create_writer(store::RunInfo& info, bool may_rename,
                                                        const store::WriterOptions& options) {
  FileSystem& files = posix_file_system();
  PARAMEDIC_TRY(files.make_folders(std::string(folder_of(info.dir))));
  const std::string stem = info.dir;
  for (int i = 2;; ++i) {
    auto writer = store::RunWriter::create(files, info, options, real_clock());
    if (writer.ok() || !may_rename || !files.exists(info.dir) || i > kFolderTriesMax) return writer;
    const bool rings_inside = info.ring_dir == info.dir;
    info.dir = fmt::format("{}-{}", stem, i);
    if (rings_inside) info.ring_dir = info.dir;
  }
}

}  // namespace

// What comes from the rings goes to the store, to the rules, and to run.json.
class Agent::Fanout : public store::RowSink {
 public:
  explicit Fanout(Agent& agent) : agent_(agent) {}

  void on_stats(const store::StatsRow& row) override {
    agent_.writer_->on_stats(row);
    agent_.engine_->on_stats(row);
    agent_.cluster_->on_stats(row);
  }
  void on_histogram(const store::HistogramRow& row) override {
    agent_.writer_->on_histogram(row);
    agent_.engine_->on_histogram(row);
  }
  void on_scalar(const store::ScalarRow& row) override {
    agent_.writer_->on_scalar(row);
    agent_.engine_->on_scalar(row);
    agent_.cluster_->on_scalar(row);
  }
  void on_event(const store::EventRow& row) override {
    agent_.writer_->on_event(row);
    // What the agent saw itself belongs to no ring, and is no matter of one process's rules.
    if (row.origin.ring_id != 0) agent_.engine_->on_event(row);
    agent_.cluster_->on_event(row);
    agent_.on_event(row);
  }
  void on_model(const store::ModelRow& row) override {
    agent_.writer_->on_model(row);
    agent_.engine_->on_model(row);
    agent_.cluster_->on_model(row);
  }
  void on_tensor_piece(const store::TensorPieceRow& row) override {
    agent_.writer_->on_tensor_piece(row);
  }
  void on_collective(const store::CollectiveRow& row) override {
    agent_.writer_->on_collective(row);
    agent_.cluster_->on_collective(row);
  }
  void on_metric(const store::MetricRow& row) override {
    agent_.writer_->on_metric(row);
    agent_.cluster_->on_metric(row);
  }

 private:
  Agent& agent_;
};

Result<std::unique_ptr<Agent>> Agent::create(store::RunInfo info, uint64_t disk_bytes_max,
                                             bool may_rename, AgentCallbacks callbacks) {
  info.agent_pid = ::getpid();
  info.agent_start_ticks = start_ticks(::getpid());
  store::WriterOptions options;
  options.disk_bytes_max = disk_bytes_max;
  PARAMEDIC_ASSIGN(auto writer, create_writer(info, may_rename, options));
  return std::unique_ptr<Agent>(
      new Agent(std::move(info), std::move(writer), std::move(callbacks)));
}

Agent::Agent(store::RunInfo info, std::unique_ptr<store::RunWriter> writer,
             AgentCallbacks callbacks)
    : info_(std::move(info)),
      callbacks_(std::move(callbacks)),
      writer_(std::move(writer)),
      explained_(*this),
      engine_(rules::Engine::create(explained_)),
      cluster_(cluster::Cluster::create(explained_)),
      fanout_(std::make_unique<Fanout>(*this)),
      rings_(info_.ring_dir, info_.id, [this](const std::string& text) { note_once(text); }),
      settings_(CollectorRoots{}.proc, info_.host, system_lookup()),
      collectors_(make_collectors(CollectorRoots{})) {
  written_info_ = to_text(info_.to_json());
}

Agent::~Agent() = default;

void Agent::tick() {
  drain();
  const int64_t now_ns = real_clock().monotonic_ns();
  if (root_pid_ != 0) settings_.look(real_clock().wall_ns(), root_pid_, *fanout_);
  if (root_pid_ != 0 && now_ns - sampled_ns_ >= kSampleNs) {
    sampled_ns_ = now_ns;
    sample();
  }
  if (now_ns - compared_ns_ >= kCompareNs) {
    compared_ns_ = now_ns;
    compare_ranks();
  }
  if (now_ns - flushed_ns_ >= kFlushNs || rings_.fullest() > kFullEnough) {
    flushed_ns_ = now_ns;
    flush();
  }
  if (now_ns - info_written_ns_ >= kInfoNs) {
    info_written_ns_ = now_ns;
    update_info();
    write_info();
  }
}

int64_t Agent::flush_now() {
  drain();
  flushed_ns_ = real_clock().monotonic_ns();
  flush();
  info_written_ns_ = flushed_ns_;
  update_info();
  write_info();
  return info_.steps - 1;
}

void Agent::sample() {
  const int64_t time_ns = real_clock().wall_ns();
  for (const auto& collector : collectors_) collector->sample(time_ns, root_pid_, *fanout_);
}

void Agent::drain() {
  drained_wall_ns_ = real_clock().wall_ns();
  rings_.drain(*fanout_);
}

void Agent::compare_ranks() {
  cluster::Moment moment =
      look_at(rings_.ranks(), CollectorRoots{}.proc, real_clock().wall_ns(), exits_);
  cluster_->tick(moment);
  if (tells_looks_) write_look(std::move(moment), false);
}

void Agent::write_look(cluster::Moment moment, bool has_ended) {
  const nodes::Look look{std::move(moment), stored_wall_ns_, has_ended, std::nullopt};
  note_write_failure(nodes::write_look(info_.dir, to_text(look.to_json())));
}

void Agent::flush() {
  note_write_failure(writer_->flush());
  stored_wall_ns_ = drained_wall_ns_;
  for (const std::string& text : writer_->notes()) note_once(text);
  // Also after a failed flush: the writer has dropped and counted those rows, and a full ring
  // would only lose the next ones too.
  rings_.acknowledge();
}

void Agent::finish(const Ending& ending) {
  drain();
  engine_->finish();
  compare_ranks();
  cluster_->finish();
  flush();
  update_info();
  info_.status = ending.status;
  info_.failure = ending.status == "finished" ? Json(nullptr) : failure_;
  info_.exit_code = ending.exit_code;
  info_.signal = ending.signal;
  info_.ended = static_cast<double>(real_clock().wall_ns()) / 1e9;
  for (auto& rank : info_.ranks) {
    const bool died = rank.status == "lost" && ending.status == "failed";
    if (died) rank.status = "failed";
  }
  if (info_.framework.empty()) {
    info_.not_captured.emplace_back("everything", why_nothing_seen(info_.command));
  }
  note_write_failure(writer_->seal());
  write_info();
  if (ending.status == "failed") judge_failure(ending);
  if (writer_->lost_rows() > 0) {
    note_once(fmt::format("{} rows of the capture were lost", writer_->lost_rows()));
  }
  // At the very end: whoever follows the folder has it all then.
  if (!tells_looks_) return;
  stored_wall_ns_ = real_clock().wall_ns();
  write_look(look_at(rings_.ranks(), CollectorRoots{}.proc, stored_wall_ns_, exits_), true);
}

// After everything else: whoever kills us meanwhile takes nothing but the verdict away.
void Agent::judge_failure(const Ending& ending) {
  auto failure = post_mortem(info_, {ending.exit_code, ending.signal, ending.said}, info_.failure);
  if (!failure.ok()) return note_once("why it failed: " + failure.status().to_string());
  info_.failure = std::move(failure).value();
  write_info();
}

void Agent::update_info() {
  info_.ranks.clear();
  info_.overhead_percent.reset();
  info_.dropped_records = rings_.dropped_records();
  for (const auto& [number, state] : rings_.ranks()) {
    store::RunInfo::Rank rank;
    rank.rank = number;
    rank.pid = state.newest.pid;
    rank.host = info_.host;
    rank.last_step = state.newest.last_step;
    rank.status = state.running ? "running" : state.newest.closed ? "finished" : "lost";
    info_.ranks.push_back(rank);
    info_.world_size = std::max(info_.world_size, state.newest.world_size);
    info_.steps = std::max(info_.steps, state.newest.last_step + 1);
    if (state.newest.last_step >= 0) {
      info_.overhead_percent =
          std::max(info_.overhead_percent.value_or(0), state.newest.overhead_percent);
    }
  }
  mark_paused();
}

// A rank that captures nothing has no ring and appears with its pause alone.
void Agent::mark_paused() {
  info_.status = paused_.empty() ? "running" : "paused";
  // A process that failed is no failure of a run that goes on.
  info_.failure = paused_.empty() ? Json(nullptr) : failure_;
  for (const PausedRank& paused : paused_) {
    auto rank =
        std::find_if(info_.ranks.begin(), info_.ranks.end(),
                     [&](const store::RunInfo::Rank& known) { return known.rank == paused.rank; });
    if (rank == info_.ranks.end()) {
      rank = info_.ranks.insert(rank, {paused.rank, paused.pid, paused.host, "", -1});
    }
    rank->status = "paused";
  }
}

void Agent::set_paused(std::vector<PausedRank> ranks, Json failure) {
  paused_ = std::move(ranks);
  failure_ = std::move(failure);
  update_info();
  write_info();
}

void Agent::add_repair(const store::RepairRow& row) {
  writer_->on_repair(row);
  flush();
}

void Agent::write_info() {
  std::string text = to_text(info_.to_json());
  if (text == written_info_) return;
  const Status status = writer_->write_info(info_);
  if (status.ok()) written_info_ = std::move(text);
  note_write_failure(status);
}

void Agent::on_event(const store::EventRow& row) {
  const bool is_rendezvous = row.kind == "rendezvous";
  if (row.kind != "attached" && row.kind != "not_captured" && !is_rendezvous) return;
  const auto json = parse_json(row.json, "an event");
  if (!json.ok()) return;
  if (is_rendezvous) {
    on_rendezvous(*json);
    return;
  }
  if (row.kind == "attached") {
    if (info_.framework.empty()) info_.framework = string_or(json.value(), "framework", "");
    return;
  }
  std::pair<std::string, std::string> entry(string_or(json.value(), "what", ""),
                                            string_or(json.value(), "why", ""));
  auto& known = info_.not_captured;
  if (known.size() >= kNotCapturedMax) return;
  if (std::find(known.begin(), known.end(), entry) == known.end()) {
    known.push_back(std::move(entry));
  }
}

void Agent::on_rendezvous(const Json& rendezvous) {
  const auto port = cluster::whole_number(string_or(rendezvous, "master_port", ""));
  settings_.note_meeting(string_or(rendezvous, "master_addr", ""),
                         static_cast<int>(port.value_or(integer_or(rendezvous, "master_port", 0))));
}

void Agent::on_finding(const std::string& key, const rules::Finding& finding) {
  store::FindingRow row;
  row.time_ns = real_clock().wall_ns();
  row.rank = finding.rank.value_or(0);
  row.key = key;
  row.json = to_text(finding.to_json());
  writer_->on_finding(row);
  const auto known = std::find_if(findings_.begin(), findings_.end(),
                                  [&](const KnownFinding& entry) { return entry.key == key; });
  if (known == findings_.end()) {
    findings_.push_back({key, finding});
    callbacks_.finding(finding);
    return;
  }
  const bool worse = finding.severity > known->finding.severity;
  known->finding = finding;
  if (worse) callbacks_.finding(finding);
}

std::vector<rules::Finding> Agent::findings() const {
  std::vector<rules::Finding> findings;
  findings.reserve(findings_.size());
  for (const KnownFinding& entry : findings_) findings.push_back(entry.finding);
  return findings;
}

// A disk that is full fails every table and every second: one message is enough.
void Agent::note_write_failure(const Status& status) {
  if (status.ok() || std::exchange(write_failed_, true)) return;
  note_once(status.message());
}

void Agent::note_once(const std::string& text) {
  if (noted_.size() < kNotesMax && noted_.insert(text).second) callbacks_.note(text);
}

}  // namespace paramedic::supervise
