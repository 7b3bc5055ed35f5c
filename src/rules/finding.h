#pragma once
// A finding as contract.md defines it. Plain value.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace paramedic::rules {

enum class Severity : uint8_t { kInfo, kWarning, kError };
const char* severity_name(Severity severity);

struct Where {
  std::string file;
  int32_t line = 0;
  std::string function;
};

struct Finding {
  std::string id;
  Severity severity = Severity::kWarning;
  double time = 0;  // seconds since 1970 UTC at which it was first known
  std::optional<int64_t> step;
  std::optional<int64_t> last_step;
  std::string mode = "train";
  std::optional<int32_t> rank;
  std::optional<std::string> tensor;
  std::optional<std::string> kind;
  std::optional<double> value;
  std::optional<double> threshold;
  std::optional<Where> where;
  std::string stage = "train";
  double confidence = 0;
  std::string message;
  std::vector<std::string> evidence;
  std::string fix;
  std::vector<std::string> tensors;  // all that show the problem, worst first, when several do

  // Unknown values are null, never left out; a NaN or Inf `value` is null (the message has it).
  [[nodiscard]] Json to_json() const;
  static Result<Finding> from_json(const Json& json);
};

}  // namespace paramedic::rules
