// The fingerprint of a tensor: two sums for each of sixteen lanes of 32-bit words, a plain one and
// one weighted by position (a running sum of the plain one), mixed at the end. Additions modulo
// 2^64 give the same on all processors.

#include "stats/fingerprint.h"

#include <algorithm>
#include <cstring>

#include "stats/flat_view.h"

namespace paramedic::stats {
namespace {

// Collects bytes into whole blocks. What is left over at the end is filled up with zeros.
class Blocks {
 public:
  explicit Blocks(const Kernels& kernels) : kernels_(kernels) {}

  void add(const std::byte* bytes, size_t count) {
    if (filled_ > 0) {
      const size_t part = std::min(count, sizeof partial_ - filled_);
      std::memcpy(partial_ + filled_, bytes, part);
      filled_ += part;
      bytes += part;
      count -= part;
      if (filled_ < sizeof partial_) return;
      kernels_.add_blocks(partial_, 1, lanes_);
      filled_ = 0;
    }
    const size_t whole = count / sizeof partial_;
    kernels_.add_blocks(bytes, whole, lanes_);
    filled_ = count - whole * sizeof partial_;
    std::memcpy(partial_, bytes + whole * sizeof partial_, filled_);
  }

  uint64_t finish() {
    if (filled_ > 0) {
      std::memset(partial_ + filled_, 0, sizeof partial_ - filled_);
      kernels_.add_blocks(partial_, 1, lanes_);
    }
    uint64_t all = 0;
    for (size_t lane = 0; lane < FingerprintLanes::kLanes; ++lane) {
      all = mixed(all + lanes_.plain[lane]);
      all = mixed(all + lanes_.weighted[lane]);
    }
    return all;
  }

 private:
  // The finaliser of MurmurHash3 (Appleby, public domain): a bijection that keeps 0.
  static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
  }

  const Kernels& kernels_;
  FingerprintLanes lanes_;
  std::byte partial_[FingerprintLanes::kBlockBytes] = {};
  size_t filled_ = 0;
};

}  // namespace

uint64_t fingerprint_with(const Kernels& kernels, const TensorView& view) {
  const FlatView flat = flatten(view);
  Blocks blocks(kernels);
  for_each_chunk(flat, [&](const void* elements, size_t count) {
    blocks.add(static_cast<const std::byte*>(elements), count * flat.element_bytes);
  });
  return blocks.finish();
}

uint64_t fingerprint(const TensorView& view) { return fingerprint_with(best_kernels(), view); }

}  // namespace paramedic::stats
