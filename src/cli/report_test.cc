#include "cli/report.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/test_folder.h"

namespace paramedic::cli {
namespace {

// A run in memory.
class FakeReader : public store::RunReader {
 public:
  store::RunInfo run;
  std::deque<store::TensorInfo> tensors;
  std::deque<std::string> names;
  std::vector<store::StatsRow> stats;
  std::vector<store::ScalarRow> scalars;
  std::vector<store::ModelRow> model;
  std::vector<store::FindingRow> findings;
  std::vector<store::RepairRow> repairs;
  std::vector<store::Damage> damaged;

  const store::TensorInfo* gradient(const std::string& name, std::vector<int64_t> sizes) {
    tensors.push_back({name, store::Kind::kGradient, stats::DType::kFloat32, std::move(sizes)});
    return &tensors.back();
  }
  void add_stats(const store::TensorInfo* tensor, int64_t step, double sum_squares,
                 uint64_t nan = 0) {
    store::StatsRow row;
    row.tensor = tensor;
    row.origin.step = step;
    row.stats.count = 10;
    row.stats.nan = nan;
    row.stats.sum_squares = sum_squares;
    stats.push_back(row);
  }
  void add_scalar(const std::string& name, int64_t step, double value,
                  store::Mode mode = store::Mode::kTrain) {
    const std::string* interned = nullptr;
    for (const std::string& known : names) interned = known == name ? &known : interned;
    if (interned == nullptr) interned = &names.emplace_back(name);
    store::ScalarRow row;
    row.name = interned;
    row.origin.step = step;
    row.origin.mode = mode;
    row.value = value;
    scalars.push_back(row);
  }
  void add_model(const std::string& kind, const std::string& name, const std::string& class_name,
                 const std::string& detail = "{}") {
    store::ModelRow row;
    row.kind = kind;
    row.name = name;
    row.class_name = class_name;
    row.detail = detail;
    model.push_back(row);
  }

  [[nodiscard]] const store::RunInfo& info() const override { return run; }
  Status read_stats(const std::function<bool(const store::StatsRow&)>& row) override {
    return all(stats, row);
  }
  Status read_histograms(const std::function<bool(const store::HistogramRow&)>&) override {
    return {};
  }
  Status read_scalars(const std::function<bool(const store::ScalarRow&)>& row) override {
    return all(scalars, row);
  }
  Status read_events(const std::function<bool(const store::EventRow&)>&) override { return {}; }
  Status read_model(const std::function<bool(const store::ModelRow&)>& row) override {
    return all(model, row);
  }
  Status read_tensor_pieces(const std::function<bool(const store::TensorPieceRow&)>&) override {
    return {};
  }
  Status read_collectives(const std::function<bool(const store::CollectiveRow&)>&) override {
    return {};
  }
  Status read_metrics(const std::function<bool(const store::MetricRow&)>&) override { return {}; }
  Status read_repairs(const std::function<bool(const store::RepairRow&)>& row) override {
    return all(repairs, row);
  }
  Result<std::vector<store::FindingRow>> read_findings() override { return findings; }
  Status replay(store::RowSink&) override { return {}; }
  [[nodiscard]] const std::vector<store::Damage>& damage() const override { return damaged; }

 private:
  template <typename Row>
  static Status all(const std::vector<Row>& rows, const std::function<bool(const Row&)>& visit) {
    for (const Row& row : rows) {
      if (!visit(row)) break;
    }
    return {};
  }
};

TEST(Report, layers_come_in_forward_order_with_their_parameters) {
  FakeReader reader;
  const auto* head = reader.gradient("head.weight", {10, 4});
  const auto* bias = reader.gradient("body.0.bias", {4});
  const auto* weight = reader.gradient("body.0.weight", {4, 8});
  const auto* scale = reader.gradient("scale", {});
  for (const auto* tensor : {head, bias, weight, scale}) reader.add_stats(tensor, 0, 1);
  reader.add_model("module", "body.0", "Linear");
  reader.add_model("module", "head", "Linear");
  reader.add_model("optimizer", "0", "AdamW");
  reader.add_model("loss", "loss", "MSELoss");
  reader.add_model("loader", "0", "DataLoader", R"({"batch_size": 32})");
  const Result<Report> report = build_report(reader, 0);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->layers.size(), 3u);
  EXPECT_EQ(report->layers[0].name, "body.0");
  EXPECT_EQ(report->layers[0].class_name, "Linear");
  EXPECT_EQ(report->layers[0].parameters, 36u);
  EXPECT_EQ(report->layers[1].name, "head");
  EXPECT_EQ(report->layers[2].name, "(model)");
  EXPECT_EQ(report->parameters(), 77u);
  EXPECT_EQ(report->optimizers, std::vector<std::string>{"AdamW"});
  EXPECT_EQ(report->loss_kinds, std::vector<std::string>{"MSELoss"});
  EXPECT_EQ(report->batch_size, 32);
}

TEST(Report, the_gradient_norm_is_over_all_parameters_of_a_step) {
  FakeReader reader;
  const auto* a = reader.gradient("a.weight", {5});
  const auto* b = reader.gradient("b.weight", {5});
  reader.add_stats(a, 0, 9);
  reader.add_stats(b, 0, 16);
  reader.add_stats(a, 10, 0);
  reader.add_stats(b, 10, 0, 3);
  const Result<Report> report = build_report(reader, 0);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->norm.count, 2u);
  EXPECT_DOUBLE_EQ(report->norm.first, 5);
  EXPECT_EQ(report->norm.first_non_finite, 10);
  EXPECT_EQ(report->steps().first, 0);
  EXPECT_EQ(report->steps().last, 10);
}

TEST(Report, scalars_find_their_places) {
  FakeReader reader;
  reader.add_scalar("loss/train.py:9", 0, 2.5);
  reader.add_scalar("loss/train.py:9", 1, 2.0);
  reader.add_scalar("loss/train.py:9", 1, 3.0, store::Mode::kEval);
  reader.add_scalar("learning_rate/SGD/0", 0, 0.1);
  reader.add_scalar("gradient_norm_before_clip", 0, 7);
  reader.add_scalar("step_ms", 0, 20);
  reader.add_scalar("step_ms", 1, 40);
  reader.add_scalar("phase/forward_ms", 0, 12);
  reader.add_scalar("phase/data_ms", 0, 4);
  reader.add_scalar("amp_scale", 0, 65536);
  const Result<Report> report = build_report(reader, 0);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->losses.size(), 2u);
  EXPECT_EQ(report->losses[0].name, "train.py:9");
  EXPECT_EQ(report->losses[0].last, 2.0);
  EXPECT_EQ(report->losses[1].mode, "eval");
  EXPECT_EQ(report->rates[0].name, "SGD/0");
  EXPECT_EQ(report->norm_before_clip.last, 7);
  EXPECT_EQ(report->steps_timed, 2u);
  EXPECT_DOUBLE_EQ(report->step_ms_total, 60);
  ASSERT_EQ(report->phases.size(), 2u);
  EXPECT_EQ(report->phases[0].name, "data");
}

TEST(Report, problems_are_sorted_and_quote_the_line_they_point_at) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/train.py", "import x\n  y = f(x)");
  FakeReader reader;
  reader.run.cwd = folder.path();
  rules::Finding warning;
  warning.id = "dead_relu";
  rules::Finding error;
  error.id = "nan_origin";
  error.severity = rules::Severity::kError;
  error.step = 9;
  error.where = {"train.py", 2, "f"};
  reader.findings = {{0, 0, "dead_relu", to_text(warning.to_json())},
                     {0, 0, "nan_origin", to_text(error.to_json())}};
  const Result<Report> report = build_report(reader, 0);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  ASSERT_EQ(report->problems.size(), 2u);
  EXPECT_EQ(report->problems[0].finding.id, "nan_origin");
  EXPECT_EQ(report->problems[0].quote.line, "  y = f(x)");
  EXPECT_TRUE(report->problems[0].quote.changed);
  EXPECT_STREQ(report->health(), "problems");
  EXPECT_TRUE(quote_source({"train.py", 3, ""}, reader.run).line.empty());
  EXPECT_TRUE(quote_source({"gone.py", 1, ""}, reader.run).line.empty());
  EXPECT_TRUE(quote_source({"/dev/zero", 1, ""}, reader.run).line.empty());
}

TEST(Report, an_empty_run_is_healthy_and_has_no_steps) {
  FakeReader reader;
  const Result<Report> report = build_report(reader, 0);
  ASSERT_TRUE(report.ok());
  EXPECT_STREQ(report->health(), "healthy");
  EXPECT_TRUE(report->steps().empty());
}

TEST(Report, lists_are_bounded_however_many_names_a_run_has) {
  FakeReader reader;
  for (int i = 0; i < 3000; i++) {
    reader.add_scalar("loss/train.py:" + std::to_string(i), 0, 1);
    reader.add_stats(reader.gradient("layer" + std::to_string(i) + ".weight", {1}), 0, 1);
  }
  const Result<Report> report = build_report(reader, 0);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->losses.size(), kMaxSeries);
  EXPECT_EQ(report->layers.size(), kMaxLayers);
  EXPECT_DOUBLE_EQ(report->norm.last, std::sqrt(3000.0));
}

}  // namespace
}  // namespace paramedic::cli
