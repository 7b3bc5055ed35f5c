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

// What a finding of such an event begins with: the step and the place that are told. Its tensors
// are those listed as `tensors`, at most kTensorsPerFindingMax of them; none where that is null.
Finding told_finding(const store::EventRow& row, const Json& fields, const char* tensors = nullptr);

}  // namespace paramedic::rules
