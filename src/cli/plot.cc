#include "cli/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace paramedic::cli {
namespace {

constexpr int kLabelWidth = 9;
constexpr int kDotsAcross = 2;  // of one braille character
constexpr int kDotsDown = 4;
constexpr int kDecadesMax = 12;
constexpr int kLegendWidth = 40;

// A canvas of braille dots; (0, 0) is the bottom left.
class Dots {
 public:
  Dots(int columns, int rows)
      : columns_(columns), rows_(rows), masks_(static_cast<size_t>(columns) * rows, 0) {}

  [[nodiscard]] int width() const { return columns_ * kDotsAcross; }
  [[nodiscard]] int height() const { return rows_ * kDotsDown; }

  void set(int x, int y) {
    if (x < 0 || x >= width() || y < 0 || y >= height()) return;
    // Unicode numbers the upper three rows of dots by column, and the lowest row after them.
    constexpr uint8_t kBits[kDotsDown][kDotsAcross] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int from_top = height() - 1 - y;
    masks_[static_cast<size_t>(from_top / kDotsDown) * columns_ + x / kDotsAcross] |=
        kBits[from_top % kDotsDown][x % kDotsAcross];
  }

  void vertical(int x, int y_from, int y_to) {
    for (int y = std::min(y_from, y_to); y <= std::max(y_from, y_to); y++) set(x, y);
  }

  [[nodiscard]] std::string row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; column++) {
      const uint8_t mask = masks_[static_cast<size_t>(row) * columns_ + column];
      text += mask == 0 ? " " : utf8(0x2800 + mask);
    }
    return text.erase(text.find_last_not_of(' ') + 1);
  }

 private:
  int columns_;
  int rows_;
  std::vector<uint8_t> masks_;
};

int column_of(double step, const StepRange& axis, int columns) {
  const double span = std::max<double>(1, double(axis.last - axis.first));
  const double at = (step - double(axis.first)) / span * (columns - 1);
  return std::clamp(static_cast<int>(std::lround(at)), 0, columns - 1);
}

void draw_curve(Dots& dots, const std::vector<Column>& columns, const Scale& scale) {
  const auto y_of = [&](double value) {
    return static_cast<int>(std::lround(scale.position(value) * (dots.height() - 1)));
  };
  int previous = -1;
  for (int x = 0; x < static_cast<int>(columns.size()); x++) {
    const Column& column = columns[x];
    if (column.has_value) {
      dots.vertical(x, y_of(column.min), y_of(column.max));
      // Joins the column before, however far it is, unless a NaN lies between.
      for (int between = previous + 1; previous >= 0 && between <= x; between++) {
        const double share = double(between - previous) / (x - previous);
        const int from = y_of(columns[previous].middle);
        const int to = y_of(column.middle);
        const double before = double(between - 1 - previous) / (x - previous);
        dots.vertical(between, from + static_cast<int>(std::lround(before * (to - from))),
                      from + static_cast<int>(std::lround(share * (to - from))));
      }
      previous = x;
    }
    if (column.non_finite) previous = -1;
  }
}

// The axis under a plot: a line with N where a column had NaN or Inf.
std::string axis_line(const std::vector<Column>& columns, const Paint& paint) {
  std::string line;
  for (size_t x = 0; x < columns.size(); x += kDotsAcross) {
    const bool bad = columns[x].non_finite || columns[x + 1].non_finite;
    line += bad ? paint(Style::kError, "N") : paint(Style::kDim, "─");
  }
  return line;
}

std::string step_labels(const StepRange& axis, int width) {
  std::string first = fmt::format("step {}", axis.first);
  const std::string last = std::to_string(axis.last);
  const std::string middle = std::to_string(axis.first + (axis.last - axis.first) / 2);
  const int gap = width - static_cast<int>(first.size() + last.size());
  if (axis.first == axis.last || gap < 1) return first;
  const int before_middle = width / 2 - static_cast<int>(first.size() + middle.size() / 2);
  if (before_middle < 2 || axis.last - axis.first < 4) return first + std::string(gap, ' ') + last;
  const int after = gap - before_middle - static_cast<int>(middle.size());
  if (after < 2) return first + std::string(gap, ' ') + last;
  return first + std::string(before_middle, ' ') + middle + std::string(after, ' ') + last;
}

const char* heat_color(double position) {
  // 256-colour approximations of a perceptually even ramp from violet to yellow.
  constexpr const char* kColors[] = {"53", "54", "60", "31", "30", "36", "71", "107", "149", "220"};
  constexpr int kCount = std::size(kColors);
  return kColors[std::clamp(static_cast<int>(position * kCount), 0, kCount - 1)];
}

const char* heat_block(double position) {
  constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr int kCount = std::size(kBlocks);
  return kBlocks[std::clamp(static_cast<int>(position * kCount), 0, kCount - 1)];
}

std::string heat_character(const HeatCell& cell, const HeatScale& scale, const Paint& paint) {
  switch (cell.kind) {
    case HeatCell::Kind::kNone:
      return " ";
    case HeatCell::Kind::kNonFinite:
      return paint.color() ? "\x1b[1;97;41mN\x1b[0m" : "N";
    case HeatCell::Kind::kZero:
      return paint.color() ? "\x1b[2m0\x1b[0m" : "0";
    case HeatCell::Kind::kValue:
      break;
  }
  const double position = scale.position(cell.rms);
  if (!paint.color()) return heat_block(position);
  return fmt::format("\x1b[48;5;{}m \x1b[0m", heat_color(position));
}

std::string heat_legend(const HeatScale& scale, const Paint& paint) {
  std::string ramp;
  constexpr int kSteps = 8;
  for (int i = 0; i < kSteps; i++) {
    const double exponent = scale.low + (scale.high - scale.low) * (i + 0.5) / kSteps;
    ramp += heat_character({HeatCell::Kind::kValue, std::pow(10.0, exponent)}, scale, paint);
  }
  return fmt::format("{} {} {}  {} NaN/Inf  {} zero",
                     paint(Style::kDim, fmt::format("1e{:+03d}", scale.low)), ramp,
                     paint(Style::kDim, fmt::format("1e{:+03d}", scale.high)),
                     heat_character({HeatCell::Kind::kNonFinite, 0}, scale, paint),
                     heat_character({HeatCell::Kind::kZero, 0}, scale, paint));
}

}  // namespace

double Scale::position(double value) const {
  const double from = log ? std::log10(low) : low;
  const double to = log ? std::log10(high) : high;
  return std::clamp(((log ? std::log10(value) : value) - from) / (to - from), 0.0, 1.0);
}

double Scale::value_at(double position) const {
  if (!log) return low + (high - low) * position;
  return std::pow(10.0, std::log10(low) + (std::log10(high) - std::log10(low)) * position);
}

Scale scale_of(const std::vector<const Series*>& curves) {
  Scale scale{false, std::numeric_limits<double>::infinity(),
              -std::numeric_limits<double>::infinity()};
  for (const Series* curve : curves) {
    scale.low = std::min(scale.low, curve->min);
    scale.high = std::max(scale.high, curve->max);
  }
  scale.log = scale.low > 0 && scale.high / scale.low > Scale::kLogFactor;
  // A constant curve lies in the middle of its plot.
  if (scale.high - scale.low <= std::abs(scale.high) * 1e-9) {
    const double margin = scale.high == 0 ? 1 : std::abs(scale.high) * 0.1;
    scale.low -= margin;
    scale.high += margin;
    scale.log = false;
  }
  return scale;
}

std::vector<Column> columns_of(const Series& series, const StepRange& axis, int columns) {
  std::vector<Column> result(columns);
  std::vector<ValueBin> bins(columns);
  for (const ValueBin& bin : series.curve.bins()) {
    if (!bin.empty()) bins[column_of(bin.steps.middle(), axis, columns)].merge(bin);
  }
  for (int x = 0; x < columns; x++) {
    const ValueBin& bin = bins[x];
    result[x].non_finite = bin.non_finite > 0;
    if (bin.finite == 0) continue;
    result[x] = {true, bin.min, bin.max, bin.mean(), bin.non_finite > 0};
  }
  return result;
}

std::vector<std::string> plot_lines(const Series& series, const StepRange& axis, PlotSize size,
                                    const Paint& paint) {
  const int width = std::max(size.width - kLabelWidth - 2, 8);
  Dots dots(width, size.height);
  const std::vector<Column> columns = columns_of(series, axis, dots.width());
  const bool any = series.min <= series.max;
  const Scale scale = any ? scale_of({&series}) : Scale{};
  if (any) draw_curve(dots, columns, scale);
  std::vector<std::string> lines;
  for (int row = 0; row < size.height; row++) {
    std::string label;
    const bool labelled = row == 0 || row == size.height - 1 || row * 2 == size.height;
    // The label stands for the value in the middle of its row of characters.
    const double position = row == 0                 ? 1
                            : row == size.height - 1 ? 0
                                                     : 1 - (row + 0.5) / size.height;
    if (any && labelled) label = short_number(scale.value_at(position));
    lines.push_back(paint(Style::kDim, pad_left(label, kLabelWidth) + (labelled ? " ┤" : " │")) +
                    paint(Style::kAccent, dots.row(row)));
  }
  lines.push_back(paint(Style::kDim, std::string(kLabelWidth + 1, ' ') + "└") +
                  axis_line(columns, paint));
  lines.push_back(paint(Style::kDim, std::string(kLabelWidth + 2, ' ') + step_labels(axis, width)));
  return lines;
}

double HeatScale::position(double rms) const {
  return std::clamp((std::log10(rms) - low) / (high - low), 0.0, 1.0);
}

HeatScale heat_scale(const std::vector<Layer>& layers) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const Layer& layer : layers) {
    for (const GradientBin& bin : layer.gradient.bins()) {
      if (bin.empty() || bin.finite == 0 || bin.sum_squares <= 0) continue;
      low = std::min(low, bin.rms());
      high = std::max(high, bin.rms());
    }
  }
  // Below the smallest and above the largest double there is nothing to label.
  if (high <= 0 || !std::isfinite(high)) return {};
  HeatScale scale;
  scale.high = static_cast<int>(std::ceil(std::log10(high)));
  scale.low = static_cast<int>(std::floor(std::log10(low)));
  scale.low = std::clamp(scale.low, scale.high - kDecadesMax, scale.high - 1);
  return scale;
}

std::vector<HeatCell> heat_cells(const GradientCurve& curve, const StepRange& axis, int columns) {
  std::vector<GradientBin> bins(columns);
  for (const GradientBin& bin : curve.bins()) {
    if (!bin.empty()) bins[column_of(bin.steps.middle(), axis, columns)].merge(bin);
  }
  std::vector<HeatCell> cells(columns);
  int captured = -1;    // the last column with a captured step
  int longest_gap = 1;  // between two of them
  for (int x = 0; x < columns; x++) {
    const GradientBin& bin = bins[x];
    if (bin.empty()) continue;
    if (captured >= 0) {
      std::fill(cells.begin() + captured + 1, cells.begin() + x, cells[captured]);
      longest_gap = std::max(longest_gap, x - captured);
    }
    captured = x;
    if (bin.non_finite > 0) {
      cells[x] = {HeatCell::Kind::kNonFinite, 0};
    } else if (bin.sum_squares <= 0) {
      cells[x] = {HeatCell::Kind::kZero, 0};
    } else {
      cells[x] = {HeatCell::Kind::kValue, bin.rms()};
    }
  }
  // After the last captured step nothing is known, beyond the distance that steps have anyway.
  for (int x = captured + 1; captured >= 0 && x < std::min(captured + longest_gap, columns); x++) {
    cells[x] = cells[captured];
  }
  return cells;
}

std::vector<Layer> folded_layers(const std::vector<Layer>& layers, size_t rows) {
  if (layers.size() <= rows) return layers;
  std::vector<Layer> folded;
  for (size_t row = 0; row < rows; row++) {
    const size_t begin = row * layers.size() / rows;
    const size_t end = (row + 1) * layers.size() / rows;
    Layer layer = layers[begin];
    for (size_t i = begin + 1; i < end; i++) {
      layer.parameters += layers[i].parameters;
      for (const GradientBin& bin : layers[i].gradient.bins()) {
        if (!bin.empty()) layer.gradient.at(bin.steps.first).merge(bin);
      }
    }
    if (end - begin > 1) {
      layer.name += fmt::format(" +{}", end - begin - 1);
      layer.class_name.clear();
    }
    folded.push_back(std::move(layer));
  }
  return folded;
}

std::vector<std::string> heat_lines(const std::vector<Layer>& layers, const StepRange& axis,
                                    int width, const Paint& paint) {
  const HeatScale scale = heat_scale(layers);
  int name_width = 0;
  int class_width = 0;
  for (const Layer& layer : layers) {
    name_width = std::max(name_width, display_width(clean(layer.name)));
    class_width = std::max(class_width, display_width(clean(layer.class_name)));
  }
  name_width = std::min(name_width, width / 4);
  class_width = width >= 60 ? std::min(class_width, width / 6) : 0;
  const int label_width = 2 + name_width + (class_width > 0 ? class_width + 1 : 0);
  const int columns = std::max(width - label_width - 1, 8);
  std::vector<std::string> lines;
  for (const Layer& layer : layers) {
    std::string line = "  " + pad(cut_middle(clean(layer.name), name_width), name_width);
    if (class_width > 0) {
      line += " " + paint(Style::kDim, pad(cut(clean(layer.class_name), class_width), class_width));
    }
    line += ' ';
    for (const HeatCell& cell : heat_cells(layer.gradient, axis, columns)) {
      line += heat_character(cell, scale, paint);
    }
    lines.push_back(std::move(line));
  }
  const std::string indent(label_width + 1, ' ');
  lines.push_back(indent + paint(Style::kDim, step_labels(axis, columns)));
  const int room = std::max(width - kLegendWidth, 0);
  lines.push_back(std::string(std::min(label_width + 1, room), ' ') + heat_legend(scale, paint));
  return lines;
}

}  // namespace paramedic::cli
