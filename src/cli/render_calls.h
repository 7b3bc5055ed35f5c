#pragma once
// What `cluster collectives` says, as text and as JSON. Pure functions.

#include <string>

#include "base/json.h"
#include "cli/text.h"
#include "cluster/call_verdict.h"

namespace paramedic::cli {

// What was read, and what of it could not be used.
struct CallsView {
  std::string source;  // "4 dumps of flight recorders (2.10)"
  size_t ranks = 0;
  uint64_t calls = 0;
  std::vector<std::string> problems;
  size_t problems_total = 0;
  cluster::CallVerdict verdict;
};

std::string calls_text(const CallsView& view, const Paint& paint, int width);
Json calls_json(const CallsView& view);

}  // namespace paramedic::cli
