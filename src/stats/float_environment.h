#pragma once
// The training job may have changed how its thread rounds, flushes denormals to zero
// (`torch.set_flush_denormal`) or traps on NaN. While this object lives the thread computes by
// IEEE 754's defaults; then everything is put back, the sticky flags too, so that neither our
// results nor the job's depend on the other. Costs a few nanoseconds.

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace paramedic::stats {

class FloatEnvironment {
 public:
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
#if defined(__x86_64__)
  // Only the vector unit's register: nothing here uses the x87 unit.
  FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~FloatEnvironment() { _mm_setcsr(saved_); }

 private:
  static constexpr unsigned kDefault = 0x1f80;  // all exceptions masked, round to nearest
  unsigned saved_;
#else
  FloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
};

}  // namespace paramedic::stats
