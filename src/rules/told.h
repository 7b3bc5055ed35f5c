#pragma once
// What rules share whose fault was seen in the process itself, and told by an event. No state.
//
// Beside those of store/rows.h these are, `where` being {file, line, function}:
//   optimizer_never_steps {optimizer, passes, where}
//   squashed_before_loss {loss, function, log_missing, where}   labels_out_of_range {loss, low,
//   high, where}   eval_mode_in_training {model, modules: [], first_step, where}
//   optimizer_misses_parameters {optimizer, parameters: [], first_step, where}

#include <optional>

#include "base/json.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::rules {

// The fields of an event of that kind; empty for others, and for what is no object.
std::optional<Json> told(const store::EventRow& row, const char* kind);

// The place that an event names as `where`; empty where it is not known.
std::optional<Where> told_where(const Json& fields);

// A list of names among the fields, at most kTensorsPerFindingMax of them.
std::vector<std::string> told_names(const Json& fields, const char* key);

}  // namespace paramedic::rules
