#pragma once
// A run folder (docs/formats/run-folder.md): one RunWriter while the job runs, any number of
// RunReaders at any time. Arrow appears in the .cc files of this folder only.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "store/rows.h"

namespace paramedic::store {

constexpr int kRunFormatVersion = 1;

// run.json: small, rewritten by rename. Fields as in contract.md, `show --json`, `run`.
struct RunInfo {
  std::string id;   // unique, also in the names of the rings
  std::string dir;  // absolute
  std::vector<std::string> command;
  std::string cwd;
  std::string host;
  double started = 0;  // seconds since 1970 UTC
  std::optional<double> ended;
  std::string status = "running";  // running|finished|failed|stopped|paused|lost
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string framework;  // "" until an adapter attached
  int world_size = 1;
  struct Rank {
    int rank = 0;
    int pid = 0;
    std::string host;
    std::string status;  // running|paused|finished|failed|lost
    int64_t last_step = -1;
  };
  std::vector<Rank> ranks;
  int64_t steps = 0;
  std::optional<double> overhead_percent;
  uint64_t dropped_records = 0;
  int agent_pid = 0;
  uint64_t agent_start_ticks = 0;  // field 22 of /proc/PID/stat: tells a reused pid
  std::string ring_dir;
  // Why the job is paused or has failed, a verdict as in contract.md; null while that is not known.
  Json failure = nullptr;
  // (what, why), each once
  std::vector<std::pair<std::string, std::string>> not_captured;

  [[nodiscard]] Json to_json() const;
  static Result<RunInfo> from_json(const Json& json);
};

struct WriterOptions {
  uint64_t segment_bytes_max = 64 << 20;  // then the segment is sealed
  int64_t segment_age_ns_max = 600'000'000'000;
  uint64_t disk_bytes_max = UINT64_MAX;  // --max-disk: raw tensors are thinned first
};

// Appends rows to TABLE/rank-N-SEQ.arrows. One thread. Rows are buffered until `flush`, which the
// agent calls once a second; after it returned ok they survive kill -9. A flush that could not
// write something answers why, having written what it could; the rest is dropped and counted, and
// the next flush tries anew.
class RunWriter : public RowSink {
 public:
  // Creates `info.dir` (0700) with run.json. An error when the folder exists already.
  static Result<std::unique_ptr<RunWriter>> create(FileSystem& files, const RunInfo& info,
                                                   WriterOptions options, const Clock& clock);
  // Opens an existing run to add to it (adoption of orphaned rings): cuts torn tails.
  static Result<std::unique_ptr<RunWriter>> resume(FileSystem& files, const std::string& dir,
                                                   WriterOptions options, const Clock& clock);

  virtual void on_finding(const FindingRow& row) = 0;
  virtual void on_repair(const RepairRow& row) = 0;
  virtual Status flush() = 0;
  // Flushes, seals all segments (fsync).
  virtual Status seal() = 0;
  // Rewrites run.json.
  virtual Status write_info(const RunInfo& info) = 0;
  // Last ring sequence of each ring that is safely stored, for resuming without repeats.
  // After `resume` the map begins empty, since tables may have got differently far; rows that are
  // stored already are recognised and passed over.
  [[nodiscard]] virtual std::map<uint64_t, uint64_t> stored_sequences() const = 0;
  [[nodiscard]] virtual uint64_t lost_rows() const = 0;
  // What was cut or removed, one sentence each, for people: torn tails, thinned tables.
  [[nodiscard]] virtual std::vector<std::string> notes() const = 0;
};

// What a reader met that was damaged: named, skipped, never silently.
struct Damage {
  std::string file;
  uint64_t offset = 0;
  std::string what;
};

class RunReader {
 public:
  // kNotFound: no such run; kCorruption: run.json is damaged; kUnsupported: newer version.
  static Result<std::unique_ptr<RunReader>> open(const std::string& dir);
  virtual ~RunReader() = default;

  [[nodiscard]] virtual const RunInfo& info() const = 0;

  // Each calls `row` for every stored row of the table, per rank in the order of storing; stops
  // early when `row` returns false. Damaged batches are skipped and listed in `damage()`.
  virtual Status read_stats(const std::function<bool(const StatsRow&)>& row) = 0;
  virtual Status read_histograms(const std::function<bool(const HistogramRow&)>& row) = 0;
  virtual Status read_scalars(const std::function<bool(const ScalarRow&)>& row) = 0;
  virtual Status read_events(const std::function<bool(const EventRow&)>& row) = 0;
  virtual Status read_model(const std::function<bool(const ModelRow&)>& row) = 0;
  virtual Status read_tensor_pieces(const std::function<bool(const TensorPieceRow&)>& row) = 0;
  virtual Status read_metrics(const std::function<bool(const MetricRow&)>& row) = 0;
  // Each call once: those that were left, then, in no order, those that never were.
  virtual Status read_collectives(const std::function<bool(const CollectiveRow&)>& row) = 0;
  virtual Status read_repairs(const std::function<bool(const RepairRow&)>& row) = 0;
  // Newest row of each key, in order of first appearance.
  virtual Result<std::vector<FindingRow>> read_findings() = 0;

  // All of stats, histograms, scalars, events, model and collectives merged back into the order in
  // which each process recorded them (ring_id, sequence): what the rules saw live, but for the
  // beginning of a collective that took less than a second.
  virtual Status replay(RowSink& sink) = 0;

  [[nodiscard]] virtual const std::vector<Damage>& damage() const = 0;
};

// Turns the records of one ring file into rows. The ring's bytes are not trusted.
class RingImporter {
 public:
  // Takes the file's lock; kExhausted when another process drains it. `skip_to`: sequences up to
  // this one are stored already (RunWriter::stored_sequences).
  static Result<std::unique_ptr<RingImporter>> open(const std::string& path,
                                                    std::optional<uint64_t> skip_to);
  virtual ~RingImporter() = default;

  // Passes all rows that the writer has committed by now to `sink`; nothing is acknowledged to
  // the writer yet. Returns how many records were read. kCorruption: the ring is damaged; what
  // came before the damage has been passed on.
  virtual Result<uint64_t> drain(RowSink& sink) = 0;
  // What was drained is safely stored: gives the room back to the writer.
  virtual void acknowledge() = 0;

  struct State {
    std::string path;
    uint64_t ring_id = 0;
    int pid = 0;
    int rank = 0;
    int world_size = 1;
    bool closed = false;  // the writer ended in good order
    int64_t last_step = -1;
    int64_t last_step_time_ns = 0;
    uint64_t dropped_records = 0;
    double overhead_percent = 0;
    double fill = 0;  // 0..1: how full the ring is
  };
  [[nodiscard]] virtual State state() const = 0;
};

// Ring files of run `run_id` in `ring_dir`, whoever made them.
std::vector<std::string> find_rings(const std::string& ring_dir, const std::string& run_id);

// When the agent of the run in `dir` is dead but rings are left or run.json still says "running":
// stores what the rings hold, removes those whose writer is dead too, marks the run `lost`.
// Answers whether anything was adopted.
Result<bool> adopt_orphans(const std::string& dir);

}  // namespace paramedic::store
