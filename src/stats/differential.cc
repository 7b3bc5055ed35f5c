#include "stats/differential.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "stats/decode.h"
#include "stats/element.h"
#include "stats/kernels.h"

namespace paramedic::stats {
namespace {

// Reads the bytes one after the other; 0 when they are used up.
class ByteSource {
 public:
  explicit ByteSource(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint8_t byte() { return next_ < bytes_.size() ? bytes_[next_++] : 0; }
  int64_t below(int64_t limit) { return byte() % limit; }
  [[nodiscard]] std::span<const uint8_t> rest() const { return bytes_.subspan(next_); }

 private:
  std::span<const uint8_t> bytes_;
  size_t next_ = 0;
};

void set_dense(TensorView& view, ByteSource& source) {
  view.ndim = 1;
  view.sizes[0] = source.below(256) + 256 * source.below(40);
  view.strides[0] = 1;
}

// Dense, its dimensions in a shuffled order of strides.
void set_permuted(TensorView& view, ByteSource& source) {
  view.ndim = static_cast<uint32_t>(1 + source.below(5));
  std::array<uint32_t, kMaxDims> order = {0, 1, 2, 3, 4, 5, 6, 7};
  for (uint32_t dim = 0; dim < view.ndim; ++dim) {
    view.sizes[dim] = dim < 2 ? 1 + source.below(40) : 1 + source.below(3);
    std::swap(order[dim], order[static_cast<size_t>(source.below(dim + 1))]);
  }
  int64_t stride = 1;
  for (uint32_t place = 0; place < view.ndim; ++place) {
    view.strides[order[place]] = stride;
    stride *= view.sizes[order[place]];
  }
}

void set_any(TensorView& view, ByteSource& source) {
  constexpr int64_t kStrides[] = {0, 1, -1, 2, -2, 3, 5, -7, 12, 30, -31, 64, 100, -128, 300, 1000};
  view.ndim = static_cast<uint32_t>(source.below(kMaxDims + 1));
  for (uint32_t dim = 0; dim < view.ndim; ++dim) {
    view.sizes[dim] = dim == 0 ? source.below(200) : source.below(5);
    view.strides[dim] = kStrides[source.below(std::size(kStrides))];
  }
}

// Patterns where kernels go wrong, by element size: zeros, denormals, the ends of the range, NaN
// and Inf of each format, and for integers just numbers.
uint64_t special_pattern(DType dtype, uint8_t choice) {
  constexpr uint64_t kF64[] = {0,
                               1ULL << 63,
                               1,
                               0x800fffffffffffff,
                               0x7ff0ULL << 48,
                               0xfff0ULL << 48,
                               0x7ff8000000000000,
                               0x7fefffffffffffff};
  constexpr uint64_t kF32[] = {0,          0x80000000, 1,          0x807fffff,
                               0x7f800000, 0xff800000, 0xffc00001, 0x7f7fffff};
  constexpr uint64_t kF16[] = {0, 0x8000, 1, 0x83ff, 0x7c00, 0xfc00, 0x7e01, 0x7bff};
  constexpr uint64_t kBf16[] = {0, 0x8000, 1, 0x807f, 0x7f80, 0xff80, 0xffc1, 0x7f7f};
  constexpr uint64_t kOther[] = {0, 0x80, 1, 0x87, 0x7c, 0xff, 0x7f, 0x8000000000000000};
  switch (dtype) {
    case DType::kFloat64:
      return kF64[choice % 8];
    case DType::kFloat32:
      return kF32[choice % 8];
    case DType::kFloat16:
      return kF16[choice % 8];
    case DType::kBfloat16:
      return kBf16[choice % 8];
    default:
      return kOther[choice % 8];
  }
}

// How the contents are made from the bytes that are left.
enum class Flavour : uint8_t { kRaw, kModerate, kSpecial, kMixed };

void fill(std::span<std::byte> data, DType dtype, Flavour flavour, std::span<const uint8_t> bytes) {
  const size_t width = dtype_bytes(dtype);
  const bool floating = dtype <= DType::kFloat8E5m2;
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = bytes.empty() ? std::byte{0} : static_cast<std::byte>(bytes[i % bytes.size()]);
  }
  for (size_t at = 0; at + width <= data.size(); at += width) {
    const auto choice = static_cast<uint8_t>(data[at]);
    if (flavour == Flavour::kModerate && floating) {
      // Without the highest bit of the exponent nothing is NaN or Inf, and squares stay finite.
      data[at + width - 1] &= std::byte{0xbf};
    } else if (flavour == Flavour::kSpecial || (flavour == Flavour::kMixed && choice % 16 == 0)) {
      const uint64_t pattern = special_pattern(dtype, choice / 16);
      std::memcpy(&data[at], &pattern, width);
    }
  }
}

template <typename T>
T load(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

std::string describe(const Kernels& kernels, const Case& subject, const std::string& what) {
  std::string text = std::string(kernels.name) + " on " + dtype_name(subject.view.dtype) + " [";
  for (uint32_t dim = 0; dim < subject.view.ndim; ++dim) {
    text += " " + std::to_string(subject.view.sizes[dim]) + ":" +
            std::to_string(subject.view.strides[dim]);
  }
  return text + " ]: " + what;
}

std::string compare(const char* what, double expected, double got) {
  // By their bits, which tells -0 from +0.
  const bool same = std::bit_cast<uint64_t>(expected) == std::bit_cast<uint64_t>(got);
  if (same) return "";
  return std::string(what) + " is " + std::to_string(got) + ", not " + std::to_string(expected);
}

// Sums beyond what a double holds may come out as Inf or NaN, by the order of the elements.
std::string compare_sum(const char* what, double expected, double got, double tolerance) {
  constexpr double kMeaningful = 1e300;
  if (!(tolerance < kMeaningful) || std::fabs(got - expected) <= tolerance) return "";
  return std::string(what) + " is off by " + std::to_string(got - expected) + ", allowed are " +
         std::to_string(tolerance);
}

std::string compare_stats(const TensorStats& expected, const TensorStats& got) {
  const auto number = [](uint64_t count) { return static_cast<double>(count); };
  const double sum_tolerance_here = std::fmax(expected.sum_abs, 0) < 1e300
                                        ? sum_tolerance(expected.count, expected.sum_abs)
                                        : std::numeric_limits<double>::infinity();
  const double squares_tolerance = expected.sum_squares < 1e300
                                       ? sum_tolerance(expected.count, expected.sum_squares)
                                       : std::numeric_limits<double>::infinity();
  for (const std::string& difference :
       {compare("count", number(expected.count), number(got.count)),
        compare("nan", number(expected.nan), number(got.nan)),
        compare("positive_inf", number(expected.positive_inf), number(got.positive_inf)),
        compare("negative_inf", number(expected.negative_inf), number(got.negative_inf)),
        compare("zero", number(expected.zero), number(got.zero)),
        compare("negative", number(expected.negative), number(got.negative)),
        compare("min", expected.min, got.min), compare("max", expected.max, got.max),
        compare_sum("sum", expected.sum, got.sum, sum_tolerance_here),
        compare_sum("sum_abs", expected.sum_abs, got.sum_abs, sum_tolerance_here),
        compare_sum("sum_squares", expected.sum_squares, got.sum_squares, squares_tolerance)}) {
    if (!difference.empty()) return difference;
  }
  return "";
}

struct UnitMarks {
  std::vector<uint8_t> alive;
  std::vector<uint8_t> moving;
  uint64_t outside = 0;
};

UnitMarks expected_marks(const Case& subject, const std::vector<double>& values) {
  const TensorView& view = subject.view;
  const auto units = static_cast<size_t>(view.sizes[subject.unit_dim]);
  size_t inner = 1;
  for (uint32_t dim = subject.unit_dim + 1; dim < view.ndim; ++dim) {
    inner *= static_cast<size_t>(view.sizes[dim]);
  }
  UnitMarks marks{std::vector<uint8_t>(units), std::vector<uint8_t>(units)};
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t unit = i / inner % units;
    const bool inside = values[i] >= subject.low && values[i] <= subject.high;
    marks.alive[unit] |= static_cast<uint8_t>(values[i] != 0);
    marks.moving[unit] |= static_cast<uint8_t>(inside);
    marks.outside += inside ? 0 : 1;
  }
  return marks;
}

std::string compare_marks(const Kernels& kernels, const Case& subject, const UnitMarks& expected) {
  UnitMarks got{std::vector<uint8_t>(expected.alive.size()),
                std::vector<uint8_t>(expected.alive.size())};
  got.outside = mark_units_with(kernels, subject.view, subject.unit_dim, subject.low, subject.high,
                                got.alive.data(), got.moving.data());
  if (got.alive != expected.alive) return "alive units differ";
  if (got.moving != expected.moving) return "moving units differ";
  return compare("outside", static_cast<double>(expected.outside),
                 static_cast<double>(got.outside));
}

}  // namespace

Case case_from_bytes(std::span<const uint8_t> bytes) {
  ByteSource source(bytes);
  Case subject;
  TensorView& view = subject.view;
  view.dtype = static_cast<DType>(source.below(kDTypeCount));
  const auto flavour = static_cast<Flavour>(source.below(4));
  const int64_t layout = source.below(3);
  const auto shift = static_cast<size_t>(source.below(16));
  subject.low = static_cast<double>(static_cast<int8_t>(source.byte())) / 16;
  subject.high = subject.low + static_cast<double>(source.byte()) / 8;
  const int64_t unit_choice = source.below(kMaxDims);
  if (layout == 0) set_dense(view, source);
  if (layout == 1) set_permuted(view, source);
  if (layout == 2) set_any(view, source);
  if (view.ndim > 0) subject.unit_dim = static_cast<uint32_t>(unit_choice % view.ndim);
  int64_t first = 0;
  int64_t last = 0;
  for (uint32_t dim = 0; dim < view.ndim; ++dim) {
    const int64_t reach = std::max<int64_t>(view.sizes[dim] - 1, 0) * view.strides[dim];
    (reach < 0 ? first : last) += reach;
  }
  const size_t width = dtype_bytes(view.dtype);
  // Not a byte more than the view reaches, so that AddressSanitizer sees every read beyond it.
  subject.storage.resize(shift + static_cast<size_t>(last - first + 1) * width);
  const std::span<std::byte> elements = std::span(subject.storage).subspan(shift);
  fill(elements, view.dtype, flavour, source.rest());
  view.data = elements.data() - first * static_cast<int64_t>(width);
  return subject;
}

double element_value(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kFloat64:
      return load<double>(element);
    case DType::kFloat32:
      return static_cast<double>(load<float>(element));
    case DType::kFloat16:
      return static_cast<double>(f16_value(load<uint16_t>(element)));
    case DType::kBfloat16:
      return static_cast<double>(bf16_value(load<uint16_t>(element)));
    case DType::kFloat8E4m3fn:
      return static_cast<double>(f8e4m3fn_value(load<uint8_t>(element)));
    case DType::kFloat8E5m2:
      return static_cast<double>(f8e5m2_value(load<uint8_t>(element)));
    case DType::kInt8:
      return load<int8_t>(element);
    case DType::kInt16:
      return load<int16_t>(element);
    case DType::kInt32:
      return load<int32_t>(element);
    case DType::kInt64:
      return static_cast<double>(load<int64_t>(element));
    case DType::kUint8:
      return load<uint8_t>(element);
    case DType::kUint16:
      return load<uint16_t>(element);
    case DType::kUint32:
      return load<uint32_t>(element);
    case DType::kUint64:
      return static_cast<double>(load<uint64_t>(element));
    case DType::kBool:
      return load<uint8_t>(element) != 0 ? 1 : 0;
  }
  return 0;
}

std::vector<double> values_of(const TensorView& view) {
  std::vector<double> values;
  for (uint32_t dim = 0; dim < view.ndim; ++dim) {
    if (view.sizes[dim] == 0) return values;
  }
  const auto width = static_cast<int64_t>(dtype_bytes(view.dtype));
  int64_t index[kMaxDims] = {};
  while (true) {
    int64_t offset = 0;
    for (uint32_t dim = 0; dim < view.ndim; ++dim) offset += index[dim] * view.strides[dim];
    const auto* element = static_cast<const std::byte*>(view.data) + offset * width;
    values.push_back(element_value(view.dtype, element));
    uint32_t dim = view.ndim;
    while (dim > 0 && ++index[dim - 1] == view.sizes[dim - 1]) index[--dim] = 0;
    if (dim == 0) return values;
  }
}

Expected expected_of(const std::vector<double>& values) {
  Expected expected;
  long double sum = 0;
  long double sum_abs = 0;
  long double sum_squares = 0;
  for (const double x : values) {
    add_element(x, 1, expected.stats);
    if (!std::isfinite(x)) continue;
    ++expected.histogram.bins[histogram_bin(x)];
    const long double exact = x;
    sum += exact;
    sum_abs += std::fabs(exact);
    sum_squares += exact * exact;
  }
  expected.stats.sum = static_cast<double>(sum);
  expected.stats.sum_abs = static_cast<double>(sum_abs);
  expected.stats.sum_squares = static_cast<double>(sum_squares);
  return expected;
}

double sum_tolerance(uint64_t count, double magnitude) {
  const double n = static_cast<double>(count);
  // The second part is what squares below the smallest double lose.
  return (4096 + n / 256) * 0x1p-53 * magnitude + n * 0x1p-1074;
}

std::string first_difference(const Case& subject) {
  const std::vector<double> values = values_of(subject.view);
  const Expected expected = expected_of(values);
  UnitMarks marks;
  if (subject.view.ndim > 0) marks = expected_marks(subject, values);
  for (const Kernels* kernels : supported_kernels()) {
    Histogram histogram;
    const TensorStats with = compute_stats_with(*kernels, subject.view, &histogram);
    const TensorStats without = compute_stats_with(*kernels, subject.view);
    for (const TensorStats& got : {with, without}) {
      const std::string difference = compare_stats(expected.stats, got);
      if (!difference.empty()) return describe(*kernels, subject, difference);
    }
    if (histogram.bins != expected.histogram.bins) {
      return describe(*kernels, subject, "histogram differs");
    }
    if (subject.view.ndim == 0) continue;
    const std::string difference = compare_marks(*kernels, subject, marks);
    if (!difference.empty()) return describe(*kernels, subject, difference);
  }
  return "";
}

}  // namespace paramedic::stats
