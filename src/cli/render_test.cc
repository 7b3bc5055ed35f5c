#include <gtest/gtest.h>

#include <set>

#include "cli/golden.h"
#include "cli/plot.h"
#include "cli/render_html.h"
#include "cli/render_json.h"
#include "cli/render_text.h"
#include "cli/sample_report.h"

namespace paramedic::cli {
namespace {

// Every line without its colours.
std::string without_colors(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      plain += text[i];
    }
  }
  return plain;
}

void expect_lines_within(const std::string& text, int width) {
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    EXPECT_LE(display_width(line), width) << line;
    start = end + 1;
  }
}

// An HTML page whose every element is closed in order; answers what is wrong, "" when nothing is.
std::string first_imbalance(const std::string& html) {
  const std::set<std::string> raw = {"script", "style"};
  std::vector<std::string> open;
  size_t at = 0;
  while ((at = html.find('<', at)) != std::string::npos) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "unclosed tag at " + std::to_string(at);
    const std::string tag = html.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with('!')) continue;
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    if (tag.starts_with('/')) {
      if (open.empty() || "/" + open.back() != name) return "unexpected <" + tag + ">";
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
      if (raw.contains(name)) at = html.find("</" + name + ">", at);
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

TEST(RenderText, golden_reports) {
  expect_golden("report-healthy.txt", render_text(healthy_report(), {80, false}));
  expect_golden("report-vanishing.txt", render_text(vanishing_report(), {80, false}));
  expect_golden("report-nan.txt", render_text(nan_report(), {80, false}));
  expect_golden("report-empty.txt", render_text(empty_report(), {80, false}));
  expect_golden("report-paused.txt", render_text(paused_report(), {80, false}));
  expect_golden("report-failed.txt", render_text(failed_report(), {80, false}));
  expect_golden("report-launcher.txt", render_text(launcher_report(), {80, false}));
  expect_golden("report-narrow.txt", render_text(vanishing_report(), {44, false}));
  expect_golden("report-wide.txt", render_text(nan_report(), {120, false}));
  expect_golden("report-color.txt", render_text(vanishing_report(), {80, true}));
}

TEST(RenderText, keeps_to_every_width) {
  for (const Report& report :
       {healthy_report(), vanishing_report(), nan_report(), empty_report(), paused_report()}) {
    for (int width = 40; width <= 200; width += 16) {
      expect_lines_within(render_text(report, {width, false}), width);
    }
  }
}

TEST(RenderText, colour_adds_colours_and_no_text_outside_the_heat_map) {
  Report report = vanishing_report();
  report.layers.clear();
  EXPECT_EQ(without_colors(render_text(report, {80, true})), render_text(report, {80, false}));
}

TEST(RenderText, many_layers_are_folded_into_the_rows_there_are) {
  Report report = healthy_report();
  const Layer layer = report.layers[0];
  for (int i = 0; i < 997; i++) report.layers.push_back(layer);
  const std::vector<Layer> folded = folded_layers(report.layers, 24);
  ASSERT_EQ(folded.size(), 24u);
  uint64_t parameters = 0;
  for (const Layer& each : folded) parameters += each.parameters;
  EXPECT_EQ(parameters, report.parameters());
}

TEST(Plot, one_extreme_step_among_many_is_seen) {
  Series series;
  for (int64_t step = 0; step < 1'000'000; step++) series.add(step, step == 654'321 ? 40 : 1);
  const std::vector<Column> columns = columns_of(series, series.steps, 100);
  double max = 0;
  for (const Column& column : columns) max = std::max(max, column.max);
  EXPECT_EQ(max, 40);
  EXPECT_LE(series.curve.bins().size(), size_t{kSeriesBins});
}

TEST(Plot, one_nan_among_many_steps_is_marked) {
  Series series;
  for (int64_t step = 0; step < 100'000; step++) series.add(step, step == 777 ? NAN : 1.0);
  EXPECT_EQ(series.first_non_finite, 777);
  size_t marked = 0;
  for (const Column& column : columns_of(series, series.steps, 150)) marked += column.non_finite;
  EXPECT_EQ(marked, 1u);
}

TEST(Plot, extreme_values_draw_without_harm) {
  for (const std::vector<double>& values : std::vector<std::vector<double>>{
           {0, 0, 0}, {1e308, -1e308}, {5e-324, 1e308}, {NAN, INFINITY}, {-1e-300, 1e-300}, {7}}) {
    Series series;
    int64_t step = 0;
    for (const double value : values) series.add(step++, value);
    EXPECT_EQ(plot_lines(series, series.steps, {60, 5}, Paint(false)).size(), 7u);
  }
}

TEST(Plot, a_heat_row_claims_nothing_after_its_last_captured_step) {
  GradientCurve curve;
  for (const int64_t step : {0, 20, 40}) curve.at(step).add(step, 1, 10, 0);
  const std::vector<HeatCell> cells = heat_cells(curve, {0, 99}, 100);
  EXPECT_EQ(cells[39].kind, HeatCell::Kind::kValue);
  EXPECT_EQ(cells[59].kind, HeatCell::Kind::kValue);
  EXPECT_EQ(cells[60].kind, HeatCell::Kind::kNone);
}

TEST(Plot, folding_merges_no_matter_how_far_apart_the_steps_are) {
  Folded<ValueBin, 8> folded;
  for (const int64_t step : {int64_t{5}, int64_t{6}, int64_t{1} << 40, int64_t{3}}) {
    folded.at(step).add(step, double(step));
  }
  uint64_t count = 0;
  for (const ValueBin& bin : folded.bins()) count += bin.finite;
  EXPECT_EQ(count, 4u);
  EXPECT_LE(folded.bins().size(), 8u);
}

TEST(RenderJson, holds_every_field_of_the_contract) {
  expect_golden("report-vanishing.json", render_json(vanishing_report()).dump(1) + "\n");
  expect_golden("report-paused.json", render_json(paused_report()).dump(1) + "\n");
  expect_golden("report-empty.json", render_json(empty_report()).dump(1) + "\n");
  EXPECT_EQ(render_json(healthy_report())["health"], "healthy");
  EXPECT_EQ(render_json(vanishing_report())["health"], "problems");
  EXPECT_EQ(render_json(nan_report())["health"], "failed");
}

TEST(RenderHtml, is_one_well_formed_file_without_outside_resources) {
  for (const Report& report :
       {healthy_report(), vanishing_report(), nan_report(), empty_report(), paused_report()}) {
    const std::string html = render_html(report);
    EXPECT_EQ(first_imbalance(html), "") << report.name;
    for (const char* outside : {"http://", "https://", "src=", "url(", "@import", "<link"}) {
      EXPECT_EQ(html.find(outside), std::string::npos) << outside;
    }
    EXPECT_EQ(html.find("{{"), std::string::npos);
  }
}

TEST(RenderHtml, breaks_the_lines_of_an_exception) {
  const std::string html = render_html(launcher_report());
  EXPECT_NE(html.find("train.py FAILED<br />"), std::string::npos);
  EXPECT_EQ(first_imbalance(html), "");
}

TEST(RenderHtml, escapes_what_the_run_brings_along) {
  const std::string html = render_html(empty_report());
  EXPECT_EQ(html.find("<b>everything"), std::string::npos);
  EXPECT_NE(html.find("&lt;b&gt;everything"), std::string::npos);
  EXPECT_EQ(html.find("run<1>"), std::string::npos);
  EXPECT_EQ(html.find('\x1b'), std::string::npos);
  EXPECT_EQ(html.find("</script>", 0), html.rfind("</script>"));
}

TEST(RenderHtml, shows_what_the_terminal_shows) {
  const std::string html = render_html(vanishing_report());
  for (const char* part :
       {"2 problems", "vanishing_gradient", "train.py:31 in forward", "torch.sigmoid(self.fc1(x))",
        "loss train.py:41", "gradient norm", "gradient by layer", "learning rate SGD/0",
        "optimizer", "not captured", "overhead 0.42 %"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  expect_golden("report-vanishing.html", html);
}

}  // namespace
}  // namespace paramedic::cli
