#pragma once
// The report as one offline HTML file: no resource from outside, readable without scripts (they
// only add the values under the pointer), light and dark.

#include <string>
#include <string_view>

#include "cli/report.h"

namespace paramedic::cli {

std::string render_html(const Report& report);

// A page of the same looks; `body` is HTML, `title` is text.
std::string html_page(const std::string& title, const std::string& body);

// An error when the file exists and `force` was not given.
Status write_html(const std::string& path, const std::string& html, bool force);

// Text as the content of an element or of a quoted attribute. Control characters become '?'.
std::string escape_html(std::string_view text);

// src/cli/report.html; {{title}} and {{body}} are its slots.
const char* report_template();

}  // namespace paramedic::cli
