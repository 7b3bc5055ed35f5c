#pragma once
// The rows of a run's tables as plain values, and the interface through which they flow: from the
// ring to the store and the rules while the job runs (live), and from the store to the rules
// afterwards (replay). docs/formats/run-folder.md has the same tables as Arrow schemas.
//
// Names that adapters use:
//   scalars  loss/FILE:LINE (the tensor backward() is called on, unscaled; several a step under
//            accumulation)   learning_rate/OPTIMIZER/GROUP   gradient_norm_before_clip
//            step_ms   phase/{data,forward,backward,optimizer,validation,checkpoint}_ms
//            amp_scale   overhead_percent
//   stats    parameters by their name in the model ("net.0.weight"), kind weight or gradient;
//            module outputs by the module's name, kind activation
//   events   attached {framework, version, python}   fit_started {models, optimizers}: a new
//            model begins, rules forget the one before   not_captured {what, why}
//            gradient_not_zeroed {optimizer, parameter, where}   nan_origin {where, module,
//            operation, expression, tensor, evidence}   exception {type, message, where}
//            of a job of several ranks:
//            rendezvous {state: begun|done|failed, where, init_method, rank, world_size,
//            master_addr, master_port, took_ms, error}
//            process_group {name, description, backend, ranks, timeout_s}
//            wrapped {kind: ddp|fsdp, where, module, parameters, find_unused, broadcast_buffers,
//            world, group, join}   join {where, state: begun|done, models}   no_sync {where, group}
//            stalled {since_ns, stalled_ms, waiting: {group, sequence, operation} or null, phase:
//            forward|backward|optimizer|data|validation|checkpoint|compile or null, evaluating,
//            torch_calls_since, cpu_ms, stack: [{file, line, function}] innermost first, flight:
//            {group: {last_enqueued, last_completed, open: {sequence, operation, sizes} or null}}}
//            resumed {stalled_ms}   exiting {exception: {type, message, where} or null}
//            pace_begins {threads, cores, nice, ranks_here, threads_set} once; pace {first,
//            self_us: [], wait_us: [], wall_ms, cpu_ms, delay_ms, backward_cpu_ms, gc_ms, gc_count,
//            looks, waits, lines: [{file, line, function, kind, looks, still}], gc_lines: [{file,
//            line, function, kind, ms}]} about once a second: the beats from number `first` on, and
//            what the rank was seen at meanwhile (docs/cluster.md)
//   model    module, parameter, optimizer, loader, loss: one row each (ModelRow)

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "record/format.h"
#include "stats/tensor_stats.h"
#include "store/members.h"

namespace paramedic::store {

using record::Kind;
using record::Mode;

const char* mode_name(Mode mode);  // "train", "eval", "predict", "global"
const char* kind_name(Kind kind);  // "weight", "gradient", …

// Where a row came from. (ring_id, sequence) is unique in a run and gives the order within a
// process; step is -1 outside any step.
struct Origin {
  int32_t rank = 0;
  int32_t pid = 0;
  uint64_t ring_id = 0;
  uint64_t sequence = 0;
  int64_t time_ns = 0;  // wall clock
  int64_t step = -1;
  Mode mode = Mode::kTrain;
};

// Interned: one object for each tensor of a process, alive as long as its importer or reader, so
// that its address may serve as a key.
struct TensorInfo {
  std::string name;
  Kind kind = Kind::kOther;
  stats::DType dtype = stats::DType::kFloat32;
  std::vector<int64_t> sizes;
};

struct StatsRow {
  Origin origin;
  const TensorInfo* tensor = nullptr;
  stats::TensorStats stats;
  uint32_t units = 0;  // 0: units were not looked at
  uint32_t units_dead = 0;
  uint32_t units_frozen = 0;
  uint32_t unit_batches = 0;
  uint64_t outside = 0;
};

struct HistogramRow {
  Origin origin;
  const TensorInfo* tensor = nullptr;
  std::vector<record::HistogramBin> bins;  // only those that are not empty
};

struct ScalarRow {
  Origin origin;
  const std::string* name = nullptr;  // interned as TensorInfo is
  double value = 0;
};

struct EventRow {
  Origin origin;
  std::string kind;
  std::string json;
};

// A fact about the model, from `model` events: kind module | parameter | optimizer | loader |
// loss. `file`, `line`: where the user's code made it; line 0 = unknown. `detail`: JSON object.
struct ModelRow {
  Origin origin;
  int32_t fit = 0;  // counts the models of a process: 0, 1, …
  std::string kind;
  std::string name;
  std::string class_name;
  std::string file;
  int32_t line = 0;
  std::string function;
  std::string detail;
};

// The processes that run collectives together; interned as TensorInfo is.
struct GroupInfo {
  std::string name;         // the framework's own, the same on all ranks of the group
  std::string description;  // "default_pg", or what the job called it
  std::string backend;      // "gloo", "nccl", …
  Members ranks;            // global ranks
  double timeout_s = 0;     // 0 = not known
};

// A line of the job's own code; interned as TensorInfo is.
struct CallSite {
  std::string file;
  int32_t line = 0;
  std::string function;
  auto operator<=>(const CallSite&) const = default;
};

// A call of a collective or point-to-point operation. Told twice, when it is entered (left_ns 0)
// and when it has returned, with the same (ring_id, group, sequence). Stored when it is left; one
// that stays inside for more than a second, or for ever, is stored as entered too.
struct CollectiveRow {
  Origin origin;                     // of this telling
  const GroupInfo* group = nullptr;  // never null
  int64_t sequence = 0;              // of the call within this process and group, from 0
  std::string operation;             // "all_reduce", "broadcast", "send", …
  stats::DType dtype = stats::DType::kFloat32;
  std::vector<int64_t> sizes;  // of the input; several tensors: of the first
  uint64_t bytes = 0;          // of all input tensors
  int32_t peer = -1;           // global rank: root, source or destination; -1 where there is none
  bool asynchronous = false;   // left when it was waited for
  const CallSite* where = nullptr;  // null = not known
  int64_t entered_ns = 0;           // wall clock
  int64_t left_ns = 0;              // 0: still inside
};

struct TensorPieceRow {
  Origin origin;
  const TensorInfo* tensor = nullptr;
  uint64_t total_bytes = 0;
  uint64_t offset_bytes = 0;
  std::vector<std::byte> bytes;
};

// A resource sampled by the agent: "cpu_percent", "rss_bytes", "gpu_utilization_percent", …
struct MetricRow {
  int64_t time_ns = 0;
  int32_t pid = 0;  // 0: of the whole machine
  std::string name;
  double value = 0;
};

// A finding as it stood at time_ns; the newest row of a key is the one that counts.
struct FindingRow {
  int64_t time_ns = 0;
  int32_t rank = 0;
  std::string key;   // id, rank and fit: what is merged into one problem
  std::string json;  // contract.md, "A finding"
};

// A repair that was carried out: contract.md, `show --json`, `repairs`.
struct RepairRow {
  int64_t time_ns = 0;
  int32_t rank = 0;
  int32_t pid = 0;
  int64_t step = -1;  // -1: not known, or outside any step
  std::string file;   // where the crashed frame stood; "" and 0 where there was none
  int32_t line = 0;
  std::string function;
  std::string exception;  // its type, as in a traceback
  std::string message;
  std::string kind;  // retry|edit|action|skip|rewind|rollback|split_batch|return|restart
  std::string by;    // policy|person
  double took_ms = 0;
  std::string patch;   // of an edit: a file in the run folder
  std::string detail;  // a JSON object: parts of took_ms, what the policy or the person gave
};

// Receives rows; one thread at a time. Rows of one process arrive in the order of their sequence.
class RowSink {
 public:
  RowSink() = default;
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;
  virtual ~RowSink() = default;

  virtual void on_stats(const StatsRow&) {}
  virtual void on_histogram(const HistogramRow&) {}
  virtual void on_scalar(const ScalarRow&) {}
  virtual void on_event(const EventRow&) {}
  virtual void on_model(const ModelRow&) {}
  virtual void on_tensor_piece(const TensorPieceRow&) {}
  virtual void on_collective(const CollectiveRow&) {}
  virtual void on_metric(const MetricRow&) {}
};

}  // namespace paramedic::store
