#pragma once
// Curves and strips out of characters. Pure functions from values to lines of text; the scales are
// shared with the HTML report.

#include <string>
#include <vector>

#include "cli/report.h"
#include "cli/text.h"

namespace paramedic::cli {

// The value axis of a curve. Logarithmic when all values are positive and span more than a factor
// kLogFactor.
struct Scale {
  static constexpr double kLogFactor = 50;
  bool log = false;
  double low = 0;
  double high = 1;

  // 0 at the bottom, 1 at the top.
  [[nodiscard]] double position(double value) const;
  [[nodiscard]] double value_at(double position) const;
};
// Of a curve that has at least one finite value.
Scale scale_of(const std::vector<const Series*>& curves);

// What falls into one column of a plot.
struct Column {
  bool has_value = false;
  double min = 0;
  double max = 0;
  double middle = 0;
  bool non_finite = false;
};
// Minimum and maximum of each column survive, however long the run.
std::vector<Column> columns_of(const Series& series, const StepRange& axis, int columns);

struct PlotSize {
  int width = 80;  // of the whole, labels included
  int height = 6;  // rows of the curve
};
// A curve in braille dots with value labels on the left; steps with NaN or Inf are marked N on the
// axis. The steps are labelled below.
std::vector<std::string> plot_lines(const Series& series, const StepRange& axis, PlotSize size,
                                    const Paint& paint);

// The gradient's size per layer and step: whole decades from `low` to `high`.
struct HeatScale {
  int low = 0;
  int high = 1;
  // 0..1, clamped.
  [[nodiscard]] double position(double rms) const;
};
HeatScale heat_scale(const std::vector<Layer>& layers);

// What one cell of the heat map shows.
struct HeatCell {
  enum class Kind : uint8_t { kNone, kValue, kZero, kNonFinite };
  Kind kind = Kind::kNone;
  double rms = 0;
};
// One row; a column between two captured steps shows the one before it.
std::vector<HeatCell> heat_cells(const GradientCurve& curve, const StepRange& axis, int columns);

// Neighbouring layers taken together until there are at most `rows` of them.
std::vector<Layer> folded_layers(const std::vector<Layer>& layers, size_t rows);

std::vector<std::string> heat_lines(const std::vector<Layer>& layers, const StepRange& axis,
                                    int width, const Paint& paint);

}  // namespace paramedic::cli
