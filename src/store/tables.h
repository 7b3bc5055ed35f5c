#pragma once
// The tables of a run folder, each defined once: `Table<Row>::visit` names every column of the row
// in order. Schema, writer, reader and export all follow from it; docs/formats/run-folder.md says
// the same in words. New columns are only ever added at the end.
//
// A visitor has: time, number, flag, mode, text, name, tensor, dtype, sizes, bins, bytes, group,
// call_site (see RowAppender and RowLoader below, SpecVisitor in tables.cc).

#include <array>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "store/columns.h"
#include "store/rows.h"

namespace paramedic::store {

// The kind of event that tells of a group of processes.
inline constexpr std::string_view kGroupEvent = "process_group";

enum class TableId : uint8_t {
  kStats,
  kHistograms,
  kScalars,
  kEvents,
  kModel,
  kTensors,
  kMetrics,
  kFindings,
  kRepairs,
  kCollectives,
};
constexpr size_t kTableCount = 10;
const char* table_name(TableId table);  // its folder
const std::vector<ColumnSpec>& table_columns(TableId table);

template <typename Row>
struct Table;

template <typename O, typename V>
void visit_origin(O& origin, V& visit) {
  visit.time("time", origin.time_ns);
  visit.number("rank", origin.rank);
  visit.number("pid", origin.pid);
  visit.number("ring_id", origin.ring_id);
  visit.number("sequence", origin.sequence);
  visit.number("step", origin.step);
  visit.mode("mode", origin.mode);
}

template <>
struct Table<StatsRow> {
  static constexpr TableId kId = TableId::kStats;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit_origin(row.origin, visit);
    visit.tensor(row.tensor);
    visit.number("count", row.stats.count);
    visit.number("nan", row.stats.nan);
    visit.number("positive_inf", row.stats.positive_inf);
    visit.number("negative_inf", row.stats.negative_inf);
    visit.number("zero", row.stats.zero);
    visit.number("negative", row.stats.negative);
    visit.number("min", row.stats.min);
    visit.number("max", row.stats.max);
    visit.number("sum", row.stats.sum);
    visit.number("sum_abs", row.stats.sum_abs);
    visit.number("sum_squares", row.stats.sum_squares);
    visit.number("units", row.units);
    visit.number("units_dead", row.units_dead);
    visit.number("units_frozen", row.units_frozen);
    visit.number("unit_batches", row.unit_batches);
    visit.number("outside", row.outside);
  }
};

template <>
struct Table<HistogramRow> {
  static constexpr TableId kId = TableId::kHistograms;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit_origin(row.origin, visit);
    visit.tensor(row.tensor);
    visit.bins(row.bins);
  }
};

template <>
struct Table<ScalarRow> {
  static constexpr TableId kId = TableId::kScalars;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit_origin(row.origin, visit);
    visit.name("name", row.name);
    visit.number("value", row.value);
  }
};

template <>
struct Table<EventRow> {
  static constexpr TableId kId = TableId::kEvents;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit_origin(row.origin, visit);
    visit.text("kind", row.kind);
    visit.text("json", row.json);
  }
};

template <>
struct Table<ModelRow> {
  static constexpr TableId kId = TableId::kModel;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit_origin(row.origin, visit);
    visit.number("fit", row.fit);
    visit.text("kind", row.kind);
    visit.text("name", row.name);
    visit.text("class", row.class_name);
    visit.text("file", row.file);
    visit.number("line", row.line);
    visit.text("function", row.function);
    visit.text("detail", row.detail);
  }
};

template <>
struct Table<TensorPieceRow> {
  static constexpr TableId kId = TableId::kTensors;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit_origin(row.origin, visit);
    visit.tensor(row.tensor);
    visit.number("total_bytes", row.total_bytes);
    visit.number("offset_bytes", row.offset_bytes);
    visit.bytes("bytes", row.bytes);
  }
};

template <>
struct Table<MetricRow> {
  static constexpr TableId kId = TableId::kMetrics;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit.time("time", row.time_ns);
    visit.number("pid", row.pid);
    visit.text("name", row.name);
    visit.number("value", row.value);
  }
};

template <>
struct Table<FindingRow> {
  static constexpr TableId kId = TableId::kFindings;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit.time("time", row.time_ns);
    visit.number("rank", row.rank);
    visit.text("key", row.key);
    visit.text("json", row.json);
  }
};

template <>
struct Table<RepairRow> {
  static constexpr TableId kId = TableId::kRepairs;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit.time("time", row.time_ns);
    visit.number("rank", row.rank);
    visit.number("pid", row.pid);
    visit.number("step", row.step);
    visit.text("file", row.file);
    visit.number("line", row.line);
    visit.text("function", row.function);
    visit.text("exception", row.exception);
    visit.text("message", row.message);
    visit.text("kind", row.kind);
    visit.text("by", row.by);
    visit.number("took_ms", row.took_ms);
    visit.text("patch", row.patch);
    visit.text("detail", row.detail);
  }
};

template <>
struct Table<CollectiveRow> {
  static constexpr TableId kId = TableId::kCollectives;
  template <typename R, typename V>
  static void visit(R& row, V& visit) {
    visit_origin(row.origin, visit);
    visit.group(row.group);
    visit.number("call", row.sequence);
    visit.text("operation", row.operation);
    visit.dtype("dtype", row.dtype);
    visit.sizes("shape", row.sizes);
    visit.number("bytes", row.bytes);
    visit.number("peer", row.peer);
    visit.flag("asynchronous", row.asynchronous);
    visit.call_site(row.where);
    visit.time("entered", row.entered_ns);
    visit.time("left", row.left_ns);
  }
};

// Whether rows of a table come from a ring, so that (ring_id, sequence) identifies them.
constexpr bool from_ring(TableId table) {
  return table < TableId::kMetrics || table == TableId::kCollectives;
}

// Appends a row to one ColumnBuffer a column. Text that is not UTF-8 is made so: Arrow readers
// refuse a utf8 column with anything else in it.
class RowAppender {
 public:
  explicit RowAppender(std::vector<ColumnBuffer>& columns) : next_(columns.data()) {}

  void time(const char*, int64_t value) { (next_++)->append(value); }
  template <typename T>
  void number(const char*, T value) {
    (next_++)->append(value);
  }
  void flag(const char*, bool value) { (next_++)->append<uint32_t>(value ? 1 : 0); }
  void mode(const char*, Mode value) { append_text(mode_name(value)); }
  void dtype(const char*, stats::DType value) { append_text(stats::dtype_name(value)); }
  void text(const char*, const std::string& value) { append_text(value); }
  void name(const char*, const std::string* value) { append_text(*value); }
  void tensor(const TensorInfo* info) {
    append_text(info->name);
    append_text(kind_name(info->kind));
    append_text(stats::dtype_name(info->dtype));
    sizes("shape", info->sizes);
  }
  void sizes(const char*, const std::vector<int64_t>& value) {
    (next_++)->append_items(value.data(), value.size() * sizeof(int64_t), value.size());
  }
  void group(const GroupInfo* info) {
    append_text(info->name);
    append_text(info->description);
    append_text(info->backend);
  }
  void call_site(const CallSite* where) {
    append_text(where == nullptr ? std::string_view() : where->file);
    (next_++)->append<int32_t>(where == nullptr ? 0 : where->line);
    append_text(where == nullptr ? std::string_view() : where->function);
  }
  void bins(const std::vector<record::HistogramBin>& bins);
  void bytes(const char*, const std::vector<std::byte>& value) {
    (next_++)->append_items(value.data(), value.size(), value.size());
  }

 private:
  void append_text(std::string_view value) {
    if (!is_ascii(value)) {
      const std::string valid = valid_utf8(value);
      (next_++)->append_items(valid.data(), valid.size(), valid.size());
      return;
    }
    (next_++)->append_items(value.data(), value.size(), value.size());
  }

  ColumnBuffer* next_;
};

// One object for each name of a process. Rows come in the same order step after step, so the
// object that followed the last one is tried first: comparing is several times cheaper than
// hashing a million names.
class Interner {
 public:
  Interner() = default;
  // Groups share their members with those of other processes; the book outlives this.
  explicit Interner(MembersBook& members) : members_(&members) {}

  const std::string* name(std::string_view name);
  const TensorInfo* tensor(std::string_view name, std::string_view kind, std::string_view dtype,
                           std::string_view sizes);
  // The newest group of this name. What was not told of it is filled in, in place.
  const GroupInfo* group(std::string_view name, std::string_view description,
                         std::string_view backend);
  // What a `process_group` event says of a group; false when it says nothing.
  bool tell_group(std::string_view json);
  const CallSite* call_site(std::string_view file, int32_t line, std::string_view function);

 private:
  struct Node {
    TensorInfo info;  // of a scalar: its name alone
    std::string kind;
    std::string dtype;
    Node* next = nullptr;
  };
  std::deque<Node> nodes_;  // a deque never moves its elements
  std::unordered_map<std::string, Node*> by_key_;
  Node* last_tensor_ = nullptr;
  Node* last_name_ = nullptr;
  struct Group {
    GroupInfo info;
    bool told = false;  // by an event
  };
  MembersBook* members_ = nullptr;
  std::deque<Group> groups_;
  std::unordered_map<std::string, Group*> group_by_name_;
  std::unordered_map<std::string, CallSite> call_sites_;  // a node never moves
};

// Fills a row from row `index` of a batch.
class RowLoader {
 public:
  RowLoader(const ParsedBatch& batch, size_t index, Interner& interner)
      : next_(batch.columns.data()), row_(index), interner_(interner) {}

  void time(const char*, int64_t& value) { value = (next_++)->value<int64_t>(row_); }
  template <typename T>
  void number(const char*, T& value) {
    value = (next_++)->value<T>(row_);
  }
  void flag(const char*, bool& value) { value = (next_++)->value<uint32_t>(row_) != 0; }
  void mode(const char*, Mode& value);
  void dtype(const char*, stats::DType& value);
  void sizes(const char*, std::vector<int64_t>& value);
  void group(const GroupInfo*& info);
  void call_site(const CallSite*& where);
  void text(const char*, std::string& value) { value.assign((next_++)->text(row_)); }
  void name(const char*, const std::string*& value) {
    value = interner_.name((next_++)->text(row_));
  }
  void tensor(const TensorInfo*& info);
  void bins(std::vector<record::HistogramBin>& bins);
  void bytes(const char*, std::vector<std::byte>& value);

 private:
  const ColumnView* next_;
  size_t row_;
  Interner& interner_;
};

}  // namespace paramedic::store
