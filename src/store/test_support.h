#pragma once
// For this folder's tests: a temporary folder, random rows, and rows as text, so that two streams
// of rows compare to the last bit and a difference reads well.

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "base/fault_file.h"
#include "base/test_folder.h"
#include "store/run.h"
#include "store/tables.h"

namespace paramedic::store {

// Every column as it is stored; numbers of type double as their bits.
template <typename Row>
std::string text_of(const Row& row);

using TableTexts = std::map<TableId, std::vector<std::string>>;

// Keeps each row as text, by table.
class RowLog : public RowSink {
 public:
  void on_stats(const StatsRow& row) override { keep(row); }
  void on_histogram(const HistogramRow& row) override { keep(row); }
  void on_scalar(const ScalarRow& row) override { keep(row); }
  void on_event(const EventRow& row) override { keep(row); }
  void on_model(const ModelRow& row) override { keep(row); }
  void on_tensor_piece(const TensorPieceRow& row) override { keep(row); }
  void on_collective(const CollectiveRow& row) override { keep(row); }
  void on_metric(const MetricRow& row) override { keep(row); }
  void on_finding(const FindingRow& row) { keep(row); }
  void on_repair(const RepairRow& row) { keep(row); }

  // By TableId; `all` in the order of arrival.
  TableTexts tables;
  std::vector<std::string> all;

 private:
  template <typename Row>
  void keep(const Row& row) {
    all.push_back(table_name(Table<Row>::kId) + (": " + text_of(row)));
    tables[Table<Row>::kId].push_back(all.back());
  }
};

// Everything that a reader of the run in `dir` gets, findings as stored, not merged.
TableTexts read_all(RunReader& reader);
TableTexts read_all(const std::string& dir);
size_t count_rows(const TableTexts& tables);

// Rows with every kind of number and text. Rows of one ring have rising sequences, one record in
// four has several rows.
class RandomRows {
 public:
  explicit RandomRows(uint32_t seed) : engine_(seed) {}

  // `count` rows of random tables, given to `writer` and, as it will be read, to `log`.
  void write(RunWriter& writer, RowLog& log, int count);

 private:
  uint32_t draw() { return static_cast<uint32_t>(engine_()); }
  Origin next_origin();
  uint64_t number();
  double real();
  std::string text();
  const TensorInfo* tensor();
  StatsRow stats_row();
  CollectiveRow collective_row();
  void write_ring_row(RunWriter& writer, RowLog& log, int table);

  std::mt19937 engine_;
  std::deque<TensorInfo> tensors_;
  std::deque<std::string> names_;
  std::deque<GroupInfo> groups_;
  std::deque<CallSite> call_sites_;
  std::map<uint64_t, uint64_t> sequences_;
};

RunInfo example_info(const std::string& dir);

// Writes the files of a FaultFileSystem below `from` into the real folder `to`.
void copy_out(FaultFileSystem& files, const std::string& from, const std::string& to);

}  // namespace paramedic::store
