#pragma once
// The failures of many jobs as text and as one offline HTML page. Pure functions.

#include <string>

#include "cli/text.h"
#include "fleet/tables.h"

namespace paramedic::cli {

std::string fleet_text(const fleet::Tables& tables, const Paint& paint, int width);
// `dir`: the folder that was asked about, for the title.
std::string fleet_html(const fleet::Tables& tables, const std::string& dir);

}  // namespace paramedic::cli
