#pragma once
// The ranks view for the terminal, for scripts and for the page. Pure functions.

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/ranks_view.h"
#include "cli/text.h"

namespace paramedic::cli {

// Strips, a legend, who waits for whom, the paragraph.
std::vector<std::string> ranks_lines(const RanksView& view, int width, const Paint& paint);
Json ranks_view_json(const RanksView& view);
std::string ranks_html(const RanksView& view);

}  // namespace paramedic::cli
