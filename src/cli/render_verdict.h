#pragma once
// A diagnosis as people read it. Pure functions.

#include <string>
#include <vector>

#include "cli/text.h"
#include "diagnose/resolve.h"

namespace paramedic::cli {

// What failed, where, what proves it, and what to do.
std::string verdict_text(const diagnose::Diagnosis& diagnosis, const Paint& paint, int width);

// The events in the order of the log, with the part that each played.
std::string explanation_text(const diagnose::Diagnosis& diagnosis, const Paint& paint, int width);

// The events as they stand in the logs: an exception is known only at its last line.
std::vector<const diagnose::Event*> in_order(const diagnose::Timeline& timeline);

// All of it as one offline HTML page.
std::string verdict_html(const diagnose::Diagnosis& diagnosis);

}  // namespace paramedic::cli
