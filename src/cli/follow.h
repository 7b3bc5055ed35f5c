#pragma once
// The report of a live run on the terminal, refreshed each second. Main thread.

#include <functional>
#include <string>

#include "cli/command.h"
#include "cli/report.h"

namespace paramedic::cli {

// Shows the report until `is_enough` of it or a signal, and answers the last one. Without a
// terminal nothing is shown. `is_interrupted`: a signal ended it.
struct Followed {
  Report report;
  bool is_interrupted = false;
};
Result<Followed> follow_run(const std::string& folder, Console& console,
                            const std::function<bool(const Report&)>& is_enough);

bool is_over(const Report& report);

}  // namespace paramedic::cli
