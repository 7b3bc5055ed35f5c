#pragma once
// The report as one offline HTML file: no resource from outside, readable without scripts (they
// only add the values under the pointer), light and dark.

#include <string>
#include <string_view>

#include "cli/report.h"

namespace paramedic::cli {

std::string render_html(const Report& report);

// Text as the content of an element or of a quoted attribute. Control characters become '?'.
std::string escape_html(std::string_view text);

// src/cli/report.html; {{title}} and {{body}} are its slots.
const char* report_template();

}  // namespace paramedic::cli
