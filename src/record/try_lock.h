#pragma once
// A lock for threads of the training process that must not wait: `try_lock` spins a bounded number
// of times and then gives up. No system call, so a descheduled holder costs its rival a lost
// record, never its time. Not recursive.

#include <atomic>

namespace paramedic::record {

class TryLock {
 public:
  // About 0.1 ms with a pause of 40 to 140 cycles: longer than the copy of a usual record, much
  // shorter than a training step.
  static constexpr int kSpinsMax = 2000;

  TryLock() = default;
  TryLock(const TryLock&) = delete;
  TryLock& operator=(const TryLock&) = delete;

  [[nodiscard]] bool try_lock() {
    for (int spin = 0; spin < kSpinsMax; spin++) {
      if (!held_.load(std::memory_order_relaxed) &&
          !held_.exchange(true, std::memory_order_acquire)) {
        return true;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    return false;
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// Holds the lock, if it could be taken, until the end of the scope.
class TryLockGuard {
 public:
  explicit TryLockGuard(TryLock& lock) : lock_(lock), held_(lock.try_lock()) {}
  TryLockGuard(const TryLockGuard&) = delete;
  TryLockGuard& operator=(const TryLockGuard&) = delete;
  ~TryLockGuard() {
    if (held_) lock_.unlock();
  }
  [[nodiscard]] bool held() const { return held_; }

 private:
  TryLock& lock_;
  bool held_;
};

}  // namespace paramedic::record
