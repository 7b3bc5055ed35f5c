#pragma once
// One choice of what to do about a crash: made by a person or a policy, carried out inside the
// crashed process. Plain value; python/paramedic/recovery/crash.py has the same fields.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"

namespace paramedic::recovery {

struct Repair {
  // retry|edit|action|skip|rewind|rollback|split_batch|return|abort
  std::string kind;
  std::string by = "person";
  std::string patch;   // edit: a unified diff against the job's files
  std::string code;    // action: runs in the frame before the retry
  std::string value;   // return: an expression
  int32_t frame = -1;  // for action and return: of the crash's frames, -1 the one that crashed
  std::optional<std::pair<std::string, int32_t>> at;  // file and line of a statement to go on at
  Json options = Json::object();                      // of a policy's remedy

  // kInvalidArgument when the kind is unknown or lacks what it needs.
  static Result<Repair> from_json(const Json& json);
  [[nodiscard]] Json to_json() const;
};

}  // namespace paramedic::recovery
