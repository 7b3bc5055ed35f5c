#pragma once
// The answer: why the job failed, as in contract.md (`diagnose --json`). Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "diagnose/category.h"

namespace paramedic::diagnose {

struct CodePlace {
  std::string file;
  int line = 0;
  std::string function;
};

struct Evidence {
  std::string file;
  uint64_t line = 0;
  uint64_t offset = 0;
  int rank = -1;
  Role role = Role::kRoot;
  std::string text;
};

struct RuledOut {
  std::string what;
  Role role = Role::kWrapper;
  uint64_t line = 0;
};

struct Verdict {
  Category category = Category::kUnknown;
  std::string mechanism;
  Domain domain = Domain::kUnknown;
  std::string title;
  Retry retry = Retry::kUnknown;
  std::string retry_reason;
  double confidence = 0;
  Stage stage = Stage::kUnknown;
  int first_failing_rank = -1;
  std::optional<CodePlace> where;
  std::string exception_type;  // "" where no exception is the cause
  std::string exception_message;
  std::string fingerprint;        // the mechanism and where: the same in another job
  std::string fingerprint_exact;  // with the message and the whole stack
  std::vector<int> ranks;
  std::vector<Evidence> evidence;
  std::vector<RuledOut> ruled_out;
  int64_t last_step = -1;  // that the log tells of
  int64_t lost_steps = -1;
  std::string fix;
  std::string collect_next;
};

Json to_json(const Verdict& verdict);

}  // namespace paramedic::diagnose
