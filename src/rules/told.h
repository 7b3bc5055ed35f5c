#pragma once
// What rules share whose fault was seen in the process itself, and told by an event. No state.
//
// Beside those of store/rows.h these are, `where` being {file, line, function}:
//   optimizer_never_steps {optimizer, passes, where}
//   squashed_before_loss {loss, function, log_missing, where}   labels_out_of_range {loss, low,
//   high, where}   eval_mode_in_training {model, modules: [], first_step, where}
//   optimizer_misses_parameters {optimizer, parameters: [], first_step, where}
//   train_mode_in_evaluation {model, modules: [], first_step, where}   batch_repeated {rows, steps,
//   why, where}   loss_of_all_pairs {loss, rows, where}   embedding_of_one {module, index, rows}
//   labels_differ {seen, differ, kind, level: of the best constant answer or null, where}
//   input_scale {rms, level: mean square of the targets or null, ends: of features, mean, where}
//   answers {labels: [], answers: [], right: [], weighted, at: of the fit, where}

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
