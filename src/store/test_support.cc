#include "store/test_support.h"

#include <fmt/format.h>

#include <bit>
#include <filesystem>
#include <limits>

namespace paramedic::store {
namespace {

class TextVisitor {
 public:
  void time(const char* name, int64_t value) { add(name, value); }
  void number(const char* name, double value) { add(name, std::bit_cast<uint64_t>(value)); }
  template <typename T>
  void number(const char* name, T value) {
    add(name, value);
  }
  void flag(const char* name, bool value) { add(name, value); }
  void mode(const char* name, Mode value) { add(name, mode_name(value)); }
  void dtype(const char* name, stats::DType value) { add(name, stats::dtype_name(value)); }
  void sizes(const char* name, const std::vector<int64_t>& value) {
    add(name, fmt::format("{}", fmt::join(value, "x")));
  }
  void group(const GroupInfo* info) {
    add("group", valid_utf8(info->name));
    add("description", valid_utf8(info->description));
    add("backend", valid_utf8(info->backend));
  }
  void call_site(const CallSite* where) {
    if (where == nullptr) return;
    add("file", valid_utf8(where->file));
    add("line", where->line);
    add("function", valid_utf8(where->function));
  }
  void text(const char* name, const std::string& value) { add(name, valid_utf8(value)); }
  void name(const char* name, const std::string* value) { add(name, valid_utf8(*value)); }
  void tensor(const TensorInfo* info) {
    add("name", valid_utf8(info->name));
    add("kind", kind_name(info->kind));
    add("dtype", stats::dtype_name(info->dtype));
    sizes("shape", info->sizes);
  }
  void bins(const std::vector<record::HistogramBin>& bins) {
    for (const auto& bin : bins) add("bin", fmt::format("{}={}", bin.bin, bin.elements));
  }
  void bytes(const char* name, const std::vector<std::byte>& value) {
    add(name, std::string(reinterpret_cast<const char*>(value.data()), value.size()));
  }

  std::string result;

 private:
  template <typename T>
  void add(const char* name, const T& value) {
    result += fmt::format("{}={} ", name, value);
  }
};

}  // namespace

template <typename Row>
std::string text_of(const Row& row) {
  TextVisitor visitor;
  Table<Row>::visit(row, visitor);
  return visitor.result;
}
template std::string text_of(const StatsRow&);
template std::string text_of(const HistogramRow&);
template std::string text_of(const ScalarRow&);
template std::string text_of(const EventRow&);
template std::string text_of(const ModelRow&);
template std::string text_of(const TensorPieceRow&);
template std::string text_of(const MetricRow&);
template std::string text_of(const FindingRow&);
template std::string text_of(const RepairRow&);
template std::string text_of(const CollectiveRow&);

TableTexts read_all(RunReader& reader) {
  RowLog log;
  const Status statuses[] = {
      reader.read_stats([&](const auto& row) { return log.on_stats(row), true; }),
      reader.read_histograms([&](const auto& row) { return log.on_histogram(row), true; }),
      reader.read_scalars([&](const auto& row) { return log.on_scalar(row), true; }),
      reader.read_events([&](const auto& row) { return log.on_event(row), true; }),
      reader.read_model([&](const auto& row) { return log.on_model(row), true; }),
      reader.read_tensor_pieces([&](const auto& row) { return log.on_tensor_piece(row), true; }),
      reader.read_metrics([&](const auto& row) { return log.on_metric(row), true; }),
      reader.read_repairs([&](const auto& row) { return log.on_repair(row), true; }),
      reader.read_collectives([&](const auto& row) { return log.on_collective(row), true; }),
  };
  for (const Status& status : statuses) PARAMEDIC_CHECK(status.ok());
  const Result<std::vector<FindingRow>> findings = reader.read_findings();
  for (const FindingRow& row : *findings) log.on_finding(row);
  return log.tables;
}

TableTexts read_all(const std::string& dir) { return read_all(*RunReader::open(dir).value()); }

size_t count_rows(const TableTexts& tables) {
  size_t count = 0;
  for (const auto& [table, rows] : tables) count += rows.size();
  return count;
}

Origin RandomRows::next_origin() {
  Origin origin;
  origin.ring_id = 0xfedcba9876543210 + draw() % 3;
  origin.rank = static_cast<int32_t>(origin.ring_id % 2);
  origin.pid = 1000 + static_cast<int32_t>(origin.ring_id % 3);
  uint64_t& sequence = sequences_[origin.ring_id];
  sequence += 1 + draw() % 3;
  origin.sequence = sequence;
  origin.time_ns = 1'796'000'000'000'000'000 + static_cast<int64_t>(sequence);
  origin.step = static_cast<int64_t>(draw() % 100) - 1;
  origin.mode = static_cast<Mode>(draw() % record::kModeCount);
  return origin;
}

uint64_t RandomRows::number() {
  switch (draw() % 4) {
    case 0:
      return 0;
    case 1:
      return std::numeric_limits<uint64_t>::max();
    default:
      return (static_cast<uint64_t>(draw()) << 32) | draw();
  }
}

double RandomRows::real() {
  using Limits = std::numeric_limits<double>;
  const double special[] = {0.0,
                            -0.0,
                            Limits::infinity(),
                            -Limits::infinity(),
                            Limits::quiet_NaN(),
                            Limits::denorm_min(),
                            Limits::max(),
                            -1.5};
  const uint32_t choice = draw() % 16;
  return choice < 8 ? special[choice] : std::bit_cast<double>(number());
}

std::string RandomRows::text() {
  const char* special[] = {"",      "loss",         "net.0.weight", "größe",          "\xff\xfe",
                           "a\xc3", "\xed\xa0\x80", "日本",         "{\"a\": [1, 2]}"};
  const uint32_t choice = draw() % 12;
  if (choice < 9) return special[choice];
  std::string bytes(draw() % 40, ' ');
  for (char& byte : bytes) byte = static_cast<char>(draw() % 256);
  return bytes;
}

const TensorInfo* RandomRows::tensor() {
  if (tensors_.size() < 50) {
    TensorInfo& info = tensors_.emplace_back();
    info.name = text();
    info.kind = static_cast<Kind>(draw() % record::kKindCount);
    info.dtype = static_cast<stats::DType>(draw() % stats::kDTypeCount);
    for (uint32_t i = draw() % 4; i > 0; i--) info.sizes.push_back(draw() % 1000);
  }
  return &tensors_[draw() % tensors_.size()];
}

StatsRow RandomRows::stats_row() {
  StatsRow row;
  row.tensor = tensor();
  row.stats.count = number();
  row.stats.nan = number();
  row.stats.positive_inf = number();
  row.stats.negative_inf = number();
  row.stats.zero = number();
  row.stats.negative = number();
  row.stats.min = real();
  row.stats.max = real();
  row.stats.sum = real();
  row.stats.sum_abs = real();
  row.stats.sum_squares = real();
  row.units = draw();
  row.units_dead = draw();
  row.units_frozen = draw();
  row.unit_batches = draw();
  row.outside = number();
  return row;
}

CollectiveRow RandomRows::collective_row() {
  while (groups_.size() < 3) {
    GroupInfo& info = groups_.emplace_back();
    info.name = fmt::format("{}", groups_.size());
    info.description = text() + "d";
    info.backend = "gloo";
  }
  CollectiveRow row;
  row.group = &groups_[draw() % groups_.size()];
  row.sequence = static_cast<int64_t>(number() >> 1);
  row.operation = text();
  row.dtype = static_cast<stats::DType>(draw() % stats::kDTypeCount);
  for (uint32_t i = draw() % 4; i > 0; i--) row.sizes.push_back(draw() % 1000);
  row.bytes = number();
  row.peer = static_cast<int32_t>(draw() % 4) - 1;
  row.asynchronous = draw() % 2 == 0;
  if (draw() % 3 != 0) {
    row.where = &call_sites_.emplace_back(
        CallSite{text() + "f", 1 + static_cast<int32_t>(draw() % 100), text()});
  }
  row.entered_ns = 1'796'000'000'000'000'000 + draw();
  row.left_ns = row.entered_ns + 1;
  return row;
}

void RandomRows::write_ring_row(RunWriter& writer, RowLog& log, int table) {
  const auto give = [&](const auto& row, auto on_row) {
    (writer.*on_row)(row);
    (static_cast<RowSink&>(log).*on_row)(row);
  };
  const Origin origin = next_origin();
  const uint32_t rows = draw() % 4 == 0 ? 3 : 1;
  for (uint32_t i = 0; i < rows; i++) {
    if (table == 0) {
      StatsRow row = stats_row();
      row.origin = origin;
      give(row, &RowSink::on_stats);
    } else if (table == 1) {
      HistogramRow row{origin, tensor(), {}};
      for (uint32_t bin = draw() % 5; bin > 0; bin--) row.bins.push_back({bin, 0, number()});
      give(row, &RowSink::on_histogram);
    } else if (table == 2) {
      give(ScalarRow{origin, &names_.emplace_back(text()), real()}, &RowSink::on_scalar);
    } else if (table == 3) {
      give(EventRow{origin, text(), text()}, &RowSink::on_event);
    } else if (table == 4) {
      give(ModelRow{origin, static_cast<int32_t>(draw() % 3), text(), text(), text(), text(),
                    static_cast<int32_t>(draw() % 100), text(), text()},
           &RowSink::on_model);
    } else if (table == 9) {
      CollectiveRow row = collective_row();
      row.origin = origin;
      give(row, &RowSink::on_collective);
    } else {
      const std::string bytes = text();
      const Bytes view = as_bytes(bytes);
      give(TensorPieceRow{origin, tensor(), number(), number(), {view.begin(), view.end()}},
           &RowSink::on_tensor_piece);
    }
  }
}

void RandomRows::write(RunWriter& writer, RowLog& log, int count) {
  for (int i = 0; i < count; i++) {
    const int table = static_cast<int>(draw() % kTableCount);
    if (from_ring(static_cast<TableId>(table))) {
      write_ring_row(writer, log, table);
    } else if (table == 6) {
      const MetricRow row{static_cast<int64_t>(number()), static_cast<int32_t>(draw() % 100),
                          text(), real()};
      writer.on_metric(row);
      log.on_metric(row);
    } else if (table == 8) {
      RepairRow row;
      row.time_ns = static_cast<int64_t>(number());
      row.rank = static_cast<int32_t>(draw() % 2);
      row.file = text();
      row.line = static_cast<int32_t>(draw() % 100);
      row.kind = text();
      row.took_ms = real();
      row.detail = text();
      writer.on_repair(row);
      log.on_repair(row);
    } else {
      // Keys differ, so that the reader gives each back.
      const FindingRow row{static_cast<int64_t>(draw()), static_cast<int32_t>(draw() % 2),
                           fmt::format("{}-{}", draw(), i), text()};
      writer.on_finding(row);
      log.on_finding(row);
    }
  }
}

RunInfo example_info(const std::string& dir) {
  RunInfo info;
  info.id = "run-7";
  info.dir = dir;
  info.command = {"python", "train.py", "--lr", "0.1"};
  info.cwd = "/home/me";
  info.started = 1796000000.25;
  return info;
}

void copy_out(FaultFileSystem& files, const std::string& from, const std::string& to) {
  std::filesystem::create_directories(to);
  const Result<std::vector<std::string>> names = files.list(from);
  for (const std::string& name : *names) {
    if (const auto text = files.read(from + "/" + name); text.ok()) {
      write_file(to + "/" + name, *text);
    } else {
      copy_out(files, from + "/" + name, to + "/" + name);
    }
  }
}

}  // namespace paramedic::store
