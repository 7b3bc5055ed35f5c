#pragma once
// Whether a job that has failed is started once more from its beginning (`run --retries`): only
// where its verdict says that this can help, and never on and on. It starts nothing itself. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace paramedic::supervise {

struct RetryOptions {
  int limit = 0;                                // 0: never
  std::vector<std::string> on = {"transient"};  // also "unknown", "any", or categories
  double delay_s = 10;                          // before the first one
  bool asks_for_other_node = false;             // somebody is there who can give one
};

struct RetryDecision {
  enum class Kind : uint8_t { kEnd, kAgain, kOtherNode };
  Kind kind = Kind::kEnd;
  double delay_s = 0;
  std::string line;  // what is decided and why, for the log
};

class Retries {
 public:
  explicit Retries(RetryOptions options) : options_(std::move(options)) {}

  // `failure`: the verdict on the attempt that has just failed (contract.md), or null. `steps`: how
  // far it came, as far as that is known.
  RetryDecision decide(const Json& failure, int64_t steps);

 private:
  [[nodiscard]] bool is_wanted(const std::string& category, const std::string& retry) const;

  const RetryOptions options_;
  int count_ = 0;
  std::string fingerprint_;  // of the attempt before
  int64_t steps_ = -1;       // the farthest that any attempt came
  int same_ = 0;             // attempts in a row that failed the same way and came no farther
};

}  // namespace paramedic::supervise
