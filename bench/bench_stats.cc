// The fused statistics against the plain read bandwidth of the same core and memory, in one run:
//   bench_stats [--kernels NAME] [--repeats N]
// Each size is measured by interleaved repetitions in processor time of the thread, so that a busy
// neighbour, who takes memory bandwidth too, slows all of them alike; the median is printed. The
// results are compared with the scalar kernels' first.

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "stats/fingerprint.h"
#include "stats/kernels.h"

namespace paramedic::stats {
namespace {

constexpr size_t kSizes[] = {64 << 10, 4 << 20, 256 << 20};
constexpr size_t kBytesMax = 256 << 20;

// The floor: everything is loaded and xor-ed, by the widest registers there are.
#if defined(__x86_64__)
#define PARAMEDIC_BENCH_READ(name, width, target_name)                                           \
  __attribute__((noinline, target(target_name))) uint64_t name(const void* data, size_t bytes) { \
    typedef uint64_t Wide __attribute__((vector_size(width), aligned(8), may_alias));            \
    const Wide* words = static_cast<const Wide*>(data);                                          \
    Wide a = {}, b = {}, c = {}, d = {};                                                         \
    for (size_t i = 0; i < bytes / (width); i += 4) {                                            \
      a ^= words[i];                                                                             \
      b ^= words[i + 1];                                                                         \
      c ^= words[i + 2];                                                                         \
      d ^= words[i + 3];                                                                         \
    }                                                                                            \
    a ^= b ^ c ^ d;                                                                              \
    return a[0] ^ a[1];                                                                          \
  }
PARAMEDIC_BENCH_READ(read_512, 64, "avx512f")
PARAMEDIC_BENCH_READ(read_256, 32, "avx2")
PARAMEDIC_BENCH_READ(read_128, 16, "sse2")
#endif

using Read = uint64_t (*)(const void*, size_t);

// All widths that this processor has: the fastest of them, at each size, is the floor. (Some
// processors split 512-bit loads in two, and are faster with 256.)
std::vector<Read> reads() {
#if defined(__x86_64__)
  std::vector<Read> supported = {read_128};
  if (__builtin_cpu_supports("avx2")) supported.push_back(read_256);
  if (__builtin_cpu_supports("avx512f")) supported.push_back(read_512);
  return supported;
#else
  return {[](const void* data, size_t bytes) {
    const auto* words = static_cast<const uint64_t*>(data);
    uint64_t all = 0;
    for (size_t i = 0; i < bytes / sizeof *words; ++i) all ^= words[i];
    return all;
  }};
#endif
}

volatile uint64_t sink = 0;

// Processor time of this thread: the time in which a neighbour had the core does not count.
double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds(const std::function<void()>& work) {
  const double start = thread_seconds();
  work();
  return thread_seconds() - start;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// GB/s of each of `works` over `bytes`: rounds of all of them one after the other.
std::vector<double> rates(const std::vector<std::function<void()>>& works, size_t bytes,
                          size_t repeats) {
  // A small tensor is read many times over for one timing, so that the clock does not matter.
  const size_t passes = std::max<size_t>(1, (4 << 20) / bytes);
  std::vector<std::vector<double>> times(works.size());
  for (size_t repeat = 0; repeat <= repeats; ++repeat) {
    for (size_t i = 0; i < works.size(); ++i) {
      const double time = seconds([&] {
        for (size_t pass = 0; pass < passes; ++pass) works[i]();
      });
      if (repeat > 0) times[i].push_back(time);  // the first round only warms up
    }
  }
  std::vector<double> result;
  result.reserve(times.size());
  for (auto& of_one : times) {
    result.push_back(static_cast<double>(bytes * passes) / 1e9 / median(std::move(of_one)));
  }
  return result;
}

// Roughly normal numbers of the size of gradients, in the type asked for.
void fill(void* data, DType dtype, size_t bytes) {
  uint64_t state = 88172645463325252U;
  const auto next = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
  };
  const size_t width = dtype_bytes(dtype);
  for (size_t i = 0; i < bytes / width; ++i) {
    const double value = (next() + next() + next()) * 0.02;
    const auto single = static_cast<float>(value);
    uint32_t single_bits = 0;
    std::memcpy(&single_bits, &single, sizeof single);
    // Truncation from float32 is good enough for 16 bits: all that matters is the spread.
    const uint32_t magnitude = (single_bits & 0x7fffffffU) >> 13;
    const uint32_t rebiased = magnitude > (112U << 10) ? magnitude - (112U << 10) : 0;
    const auto half = static_cast<uint16_t>(((single_bits >> 16) & 0x8000U) | rebiased);
    const auto brain = static_cast<uint16_t>(single_bits >> 16);
    const auto integer = static_cast<int64_t>(value * 1e6);
    const void* source = &integer;
    if (dtype == DType::kFloat64) source = &value;
    if (dtype == DType::kFloat32) source = &single;
    if (dtype == DType::kFloat16) source = &half;
    if (dtype == DType::kBfloat16) source = &brain;
    std::memcpy(static_cast<char*>(data) + i * width, source, width);
  }
}

void verify(const Kernels& kernels, const TensorView& view) {
  Histogram histogram, expected_histogram;
  const TensorStats got = compute_stats_with(kernels, view, &histogram);
  const TensorStats expected = compute_stats_with(scalar_kernels(), view, &expected_histogram);
  const bool same =
      got.count == expected.count && got.nan == expected.nan &&
      got.positive_inf == expected.positive_inf && got.negative_inf == expected.negative_inf &&
      got.zero == expected.zero && got.negative == expected.negative && got.min == expected.min &&
      got.max == expected.max && histogram.bins == expected_histogram.bins &&
      std::fabs(got.sum - expected.sum) <= 1e-11 * expected.sum_abs &&
      std::fabs(got.sum_abs - expected.sum_abs) <= 1e-11 * expected.sum_abs &&
      std::fabs(got.sum_squares - expected.sum_squares) <= 1e-11 * expected.sum_squares;
  if (same) return;
  std::fprintf(stderr, "bench_stats: %s differs from scalar on %s\n", kernels.name,
               dtype_name(view.dtype));
  std::abort();
}

void measure(const Kernels& kernels, const void* data, DType dtype, size_t repeats) {
  for (const size_t bytes : kSizes) {
    const TensorView view =
        dense_view(data, dtype, static_cast<int64_t>(bytes / dtype_bytes(dtype)));
    if (bytes == kSizes[1]) verify(kernels, view);
    Histogram histogram;
    const auto keep = [](const TensorStats& stats) { sink = sink ^ stats.zero; };
    std::vector<std::function<void()>> works = {
        [&] { keep(compute_stats_with(kernels, view)); },
        [&] { keep(compute_stats_with(kernels, view, &histogram)); },
        [&] { sink = sink ^ fingerprint_with(kernels, view); }};
    for (const Read read : reads()) {
      works.emplace_back([=] { sink = sink ^ read(data, bytes); });
    }
    const std::vector<double> rate = rates(works, bytes, repeats);
    const double floor = *std::max_element(rate.begin() + 3, rate.end());
    std::printf(
        "%-9s %8zu kB   read %6.1f GB/s   stats %5.1f = %.2f   with histogram %5.1f = %.2f   "
        "fingerprint %5.1f = %.2f\n",
        dtype_name(dtype), bytes >> 10, floor, rate[0], rate[0] / floor, rate[1], rate[1] / floor,
        rate[2], rate[2] / floor);
  }
}

int run(const Kernels& kernels, size_t repeats) {
  void* data = mmap(nullptr, kBytesMax, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    std::fprintf(stderr, "bench_stats: no %zu MB of memory\n", kBytesMax >> 20);
    return 2;
  }
  std::printf("kernels %s, median of %zu interleaved repetitions, = is the part of the read rate\n",
              kernels.name, repeats);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kFloat64,
                            DType::kInt64, DType::kUint8}) {
    fill(data, dtype, kBytesMax);
    measure(kernels, data, dtype, repeats);
  }
  munmap(data, kBytesMax);
  return 0;
}

}  // namespace
}  // namespace paramedic::stats

int main(int argc, char** argv) {
  using namespace paramedic::stats;
  const Kernels* kernels = &best_kernels();
  size_t repeats = 7;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--repeats")
      repeats = std::max<size_t>(1, std::strtoul(argv[i + 1], nullptr, 10));
    if (option != "--kernels") continue;
    kernels = nullptr;
    for (const Kernels* one : supported_kernels()) {
      if (std::string(argv[i + 1]) == one->name) kernels = one;
    }
  }
  if (kernels == nullptr) {
    std::fprintf(stderr, "bench_stats: --kernels is one of:");
    for (const Kernels* one : supported_kernels()) std::fprintf(stderr, " %s", one->name);
    std::fprintf(stderr, "\n");
    return 2;
  }
  return run(*kernels, repeats);
}
