#pragma once
// The report as text: for the terminal, and the short summary at the end of `paramedic run`.

#include <string>
#include <vector>

#include "cli/report.h"
#include "cli/text.h"

namespace paramedic::cli {

struct TextOptions {
  int width = 80;
  bool color = false;
};

std::string render_text(const Report& report, const TextOptions& options);

// "error  nan_origin  net.2  step 93  train.py:41": one problem on one line.
std::string problem_line(const rules::Finding& finding, const Paint& paint);

// "train.py:41 in forward"; "" when unknown.
std::string where_text(const rules::Finding& finding);
// "step 40", "steps 40-95"; "" when unknown.
std::string steps_text(const rules::Finding& finding);

// The parts of the status line, also shown by the HTML report: "finished", "exit 0", ….
std::vector<std::string> status_parts(const Report& report);
// "7 layers", "26,122 parameters", "SGD", ….
std::vector<std::string> model_parts(const Report& report);
// "step 812  rank 0  edit by person  train.py:31 TypeError  3.2 ms".
std::string repair_text(const store::RepairRow& row);
// The command as it could be typed into a shell.
std::string command_text(const std::vector<std::string>& command);

}  // namespace paramedic::cli
