#include "cli/export_tables.h"

#include <array>

#include "stats/tensor_view.h"

namespace paramedic::cli {
namespace {

using enum ColumnType;

// Where a row came from: the first columns of every table that flows through the ring.
constexpr ExportColumn kOriginColumns[] = {
    {"rank", kInteger},    {"pid", kInteger},  {"ring_id", kUnsigned}, {"sequence", kUnsigned},
    {"time_ns", kInteger}, {"step", kInteger}, {"mode", kText}};
constexpr size_t kOriginCount = std::size(kOriginColumns);

std::vector<ExportColumn> with_origin(std::initializer_list<ExportColumn> columns) {
  std::vector<ExportColumn> all(std::begin(kOriginColumns), std::end(kOriginColumns));
  all.insert(all.end(), columns);
  return all;
}

template <size_t kCount>
bool visit(const RowVisitor& row, const store::Origin& origin,
           const std::array<Cell, kCount>& cells) {
  std::array<Cell, kOriginCount + kCount> all = {int64_t{origin.rank},
                                                 int64_t{origin.pid},
                                                 origin.ring_id,
                                                 origin.sequence,
                                                 origin.time_ns,
                                                 origin.step,
                                                 std::string_view(store::mode_name(origin.mode))};
  std::copy(cells.begin(), cells.end(), all.begin() + kOriginCount);
  return row(all);
}

Status read_stats(store::RunReader& reader, const RowVisitor& row) {
  return reader.read_stats([&](const store::StatsRow& r) {
    const stats::TensorStats& s = r.stats;
    const std::array<Cell, 21> cells = {std::string_view(r.tensor->name),
                                        std::string_view(store::kind_name(r.tensor->kind)),
                                        std::string_view(stats::dtype_name(r.tensor->dtype)),
                                        s.count,
                                        s.nan,
                                        s.positive_inf,
                                        s.negative_inf,
                                        s.zero,
                                        s.negative,
                                        s.min,
                                        s.max,
                                        s.sum,
                                        s.sum_abs,
                                        s.sum_squares,
                                        s.mean(),
                                        s.std(),
                                        uint64_t{r.units},
                                        uint64_t{r.units_dead},
                                        uint64_t{r.units_frozen},
                                        uint64_t{r.unit_batches},
                                        r.outside};
    return visit(row, r.origin, cells);
  });
}

Status read_scalars(store::RunReader& reader, const RowVisitor& row) {
  return reader.read_scalars([&](const store::ScalarRow& r) {
    return visit<2>(row, r.origin, {std::string_view(*r.name), r.value});
  });
}

// One row a bin, since neither CSV nor every warehouse knows lists.
Status read_histograms(store::RunReader& reader, const RowVisitor& row) {
  return reader.read_histograms([&](const store::HistogramRow& r) {
    for (const record::HistogramBin& bin : r.bins) {
      if (!visit<4>(
              row, r.origin,
              {std::string_view(r.tensor->name), std::string_view(store::kind_name(r.tensor->kind)),
               uint64_t{bin.bin}, bin.elements})) {
        return false;
      }
    }
    return true;
  });
}

Status read_events(store::RunReader& reader, const RowVisitor& row) {
  return reader.read_events([&](const store::EventRow& r) {
    return visit<2>(row, r.origin, {std::string_view(r.kind), std::string_view(r.json)});
  });
}

Status read_model(store::RunReader& reader, const RowVisitor& row) {
  return reader.read_model([&](const store::ModelRow& r) {
    return visit<8>(row, r.origin,
                    {int64_t{r.fit}, std::string_view(r.kind), std::string_view(r.name),
                     std::string_view(r.class_name), std::string_view(r.file), int64_t{r.line},
                     std::string_view(r.function), std::string_view(r.detail)});
  });
}

Status read_metrics(store::RunReader& reader, const RowVisitor& row) {
  return reader.read_metrics([&](const store::MetricRow& r) {
    return row(std::array<Cell, 4>{r.time_ns, int64_t{r.pid}, std::string_view(r.name), r.value});
  });
}

Status read_findings(store::RunReader& reader, const RowVisitor& row) {
  PARAMEDIC_ASSIGN(const auto findings, reader.read_findings());
  for (const store::FindingRow& r : findings) {
    if (!row(std::array<Cell, 4>{r.time_ns, int64_t{r.rank}, std::string_view(r.key),
                                 std::string_view(r.json)})) {
      break;
    }
  }
  return {};
}

}  // namespace

const std::vector<ExportTable>& export_tables() {
  static const std::vector<ExportTable> tables = {
      {"stats",
       with_origin({{"tensor", kText},
                    {"kind", kText},
                    {"dtype", kText},
                    {"count", kUnsigned},
                    {"nan", kUnsigned},
                    {"positive_inf", kUnsigned},
                    {"negative_inf", kUnsigned},
                    {"zero", kUnsigned},
                    {"negative", kUnsigned},
                    {"min", kNumber},
                    {"max", kNumber},
                    {"sum", kNumber},
                    {"sum_abs", kNumber},
                    {"sum_squares", kNumber},
                    {"mean", kNumber},
                    {"std", kNumber},
                    {"units", kUnsigned},
                    {"units_dead", kUnsigned},
                    {"units_frozen", kUnsigned},
                    {"unit_batches", kUnsigned},
                    {"outside", kUnsigned}}),
       read_stats},
      {"scalars", with_origin({{"name", kText}, {"value", kNumber}}), read_scalars},
      {"histograms",
       with_origin(
           {{"tensor", kText}, {"kind", kText}, {"bin", kUnsigned}, {"elements", kUnsigned}}),
       read_histograms},
      {"events", with_origin({{"kind", kText}, {"json", kText}}), read_events},
      {"model",
       with_origin({{"fit", kInteger},
                    {"kind", kText},
                    {"name", kText},
                    {"class_name", kText},
                    {"file", kText},
                    {"line", kInteger},
                    {"function", kText},
                    {"detail", kText}}),
       read_model},
      {"metrics",
       {{"time_ns", kInteger}, {"pid", kInteger}, {"name", kText}, {"value", kNumber}},
       read_metrics},
      {"findings",
       {{"time_ns", kInteger}, {"rank", kInteger}, {"key", kText}, {"json", kText}},
       read_findings},
  };
  return tables;
}

}  // namespace paramedic::cli
