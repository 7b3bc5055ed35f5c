#include "store/perfetto_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

namespace paramedic::store {
namespace {

constexpr size_t kBufferBytesMax = 1 << 20;
// Stands beside the ranks, whose process numbers are their own.
constexpr int kMachine = 1'000'000;

enum Track : int { kSteps = 1, kPhases = 2, kFirstGroup = 3 };

// The order in which a training loop has them.
constexpr std::array<std::string_view, 6> kPhaseOrder = {"data",      "forward",    "backward",
                                                         "optimizer", "validation", "checkpoint"};

std::string json_text(std::string_view text) { return to_text(Json(std::string(text))); }

// A double of today's seconds tells microseconds truly, and no more.
int64_t ns_of(double seconds) { return std::llround(seconds * 1e6) * 1000; }

class TraceFile {
 public:
  TraceFile(std::unique_ptr<WritableFile> file, double started_s)
      : file_(std::move(file)), started_ns_(ns_of(started_s)) {
    buffer_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  }

  // Microseconds since the run began, as the format wants them.
  [[nodiscard]] std::string time(int64_t time_ns) const {
    return fmt::format("{:.3f}", static_cast<double>(time_ns - started_ns_) / 1e3);
  }

  // `fields`: of one event, without the braces.
  void event(std::string_view fields) {
    if (!status_.ok()) return;
    buffer_ += is_first_ ? "{" : ",\n{";
    is_first_ = false;
    buffer_ += fields;
    buffer_ += '}';
    if (buffer_.size() >= kBufferBytesMax) empty_buffer();
  }

  void slice(int process, int track, std::string_view name, int64_t begin_ns, int64_t end_ns,
             std::string_view more = "") {
    event(fmt::format(R"("ph": "X", "pid": {}, "tid": {}, "name": {}, "ts": {}, "dur": {:.3f}{})",
                      process, track, json_text(name), time(begin_ns),
                      static_cast<double>(std::max<int64_t>(end_ns - begin_ns, 0)) / 1e3, more));
  }

  void name(std::string_view what, int process, int track, std::string_view name) {
    event(fmt::format(R"("ph": "M", "pid": {}, "tid": {}, "name": "{}", "args": {{"name": {}}})",
                      process, track, what, json_text(name)));
  }

  Status close() {
    buffer_ += "\n]}\n";
    empty_buffer();
    PARAMEDIC_TRY(status_);
    return file_->close();
  }

  [[nodiscard]] bool ok() const { return status_.ok(); }

 private:
  void empty_buffer() {
    if (status_.ok()) status_ = file_->append(as_bytes(buffer_));
    buffer_.clear();
  }

  std::unique_ptr<WritableFile> file_;
  const int64_t started_ns_;
  std::string buffer_;
  bool is_first_ = true;
  Status status_;
};

class Timeline {
 public:
  Timeline(RunReader& reader, TraceFile& trace) : reader_(reader), trace_(trace) {}

  Status write() {
    trace_.name("process_name", kMachine, 0, "machine: " + reader_.info().host);
    PARAMEDIC_TRY(reader_.read_scalars([this](const ScalarRow& row) {
      if (row.name != nullptr) take_scalar(row);
      return trace_.ok();
    }));
    PARAMEDIC_TRY(reader_.read_collectives([this](const CollectiveRow& row) {
      if (row.group != nullptr) take_collective(row);
      return trace_.ok();
    }));
    PARAMEDIC_TRY(reader_.read_metrics([this](const MetricRow& row) {
      trace_.event(fmt::format(
          R"("ph": "C", "pid": {}, "name": {}, "ts": {}, "args": {{"value": {}}})", kMachine,
          json_text(row.pid == 0 ? row.name : fmt::format("{} of {}", row.name, row.pid)),
          trace_.time(row.time_ns), to_text(Json(row.value))));
      return trace_.ok();
    }));
    PARAMEDIC_TRY(reader_.read_repairs([this](const RepairRow& row) {
      instant(row.rank, fmt::format("repair: {} after {}", row.kind, row.exception), row.time_ns);
      return trace_.ok();
    }));
    PARAMEDIC_ASSIGN(const std::vector<FindingRow> findings, reader_.read_findings());
    for (const FindingRow& row : findings) take_finding(row);
    return trace_.close();
  }

 private:
  // The phases of a step are told just before its length.
  void take_scalar(const ScalarRow& row) {
    constexpr std::string_view kPrefix = "phase/";
    constexpr std::string_view kSuffix = "_ms";
    const std::string_view name = *row.name;
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) {
      const std::string_view phase =
          name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
      for (size_t i = 0; i < kPhaseOrder.size(); ++i) {
        if (kPhaseOrder[i] == phase) phase_ms_[i] = row.value;
      }
    }
    if (name == "step_ms") take_step(row);
  }

  void take_step(const ScalarRow& row) {
    const int rank = row.origin.rank;
    meet(rank);
    int64_t begin_ns = row.origin.time_ns - static_cast<int64_t>(row.value * 1e6);
    trace_.slice(rank, kSteps, fmt::format("step {}", row.origin.step), begin_ns,
                 row.origin.time_ns);
    for (size_t i = 0; i < kPhaseOrder.size(); ++i) {
      const auto length_ns = static_cast<int64_t>(std::exchange(phase_ms_[i], 0) * 1e6);
      if (length_ns <= 0) continue;
      trace_.slice(rank, kPhases, kPhaseOrder[i], begin_ns, begin_ns + length_ns);
      begin_ns += length_ns;
    }
  }

  // Calls that belong together, one of each rank of the group, are joined by arrows. A call that
  // never returned is drawn up to the newest thing that its rank told.
  void take_collective(const CollectiveRow& row) {
    const int rank = row.origin.rank;
    meet(rank);
    const GroupInfo& group = *row.group;
    const std::string key = fmt::format("{} {}", group.name, fmt::join(group.ranks.list(), ","));
    const int track =
        groups_.try_emplace(key, kFirstGroup + static_cast<int>(groups_.size())).first->second;
    if (named_groups_.insert({rank, track}).second) {
      trace_.name("thread_name", rank, track,
                  fmt::format("group {} {}", group.name, group.description));
    }
    const bool has_left = row.left_ns != 0;
    const std::string id = fmt::format("{}#{}", key, row.sequence);
    const std::string place =
        row.where == nullptr ? "" : fmt::format("{}:{}", row.where->file, row.where->line);
    trace_.slice(rank, track, has_left ? row.operation : row.operation + " (never returned)",
                 row.entered_ns, has_left ? row.left_ns : row.origin.time_ns,
                 fmt::format(R"(, "bind_id": {}, "flow_in": true, "flow_out": true, "args": )"
                             R"({{"sequence": {}, "sizes": {}, "bytes": {}, "where": {}}})",
                             json_text(id), row.sequence, to_text(Json(row.sizes)), row.bytes,
                             json_text(place)));
  }

  void take_finding(const FindingRow& row) {
    const Result<Json> finding = parse_json(row.json, "a finding");
    if (!finding.ok() || !finding->is_object()) return;
    const double time_s = number_or(*finding, "time", static_cast<double>(row.time_ns) / 1e9);
    instant(row.rank,
            string_or(*finding, "id", "finding") + ": " + string_or(*finding, "message", ""),
            ns_of(time_s));
  }

  void instant(int rank, const std::string& name, int64_t time_ns) {
    meet(rank);
    trace_.event(fmt::format(R"("ph": "i", "s": "p", "pid": {}, "tid": {}, "name": {}, "ts": {})",
                             rank, static_cast<int>(kSteps), json_text(name),
                             trace_.time(time_ns)));
  }

  // Names the tracks of a rank when it first appears.
  void meet(int rank) {
    if (!met_.insert(rank).second) return;
    trace_.name("process_name", rank, 0, fmt::format("rank {}", rank));
    trace_.name("thread_name", rank, kSteps, "steps");
    trace_.name("thread_name", rank, kPhases, "phases");
  }

  RunReader& reader_;
  TraceFile& trace_;
  std::set<int> met_;
  std::map<std::string, int> groups_;           // to their track
  std::set<std::pair<int, int>> named_groups_;  // rank and track
  std::array<double, kPhaseOrder.size()> phase_ms_{};
};

}  // namespace

Status write_perfetto(RunReader& reader, const std::string& path) {
  PARAMEDIC_ASSIGN(auto file, posix_file_system().create(path));
  TraceFile trace(std::move(file), reader.info().started);
  return Timeline(reader, trace).write();
}

}  // namespace paramedic::store
