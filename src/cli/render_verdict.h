#pragma once
// A diagnosis as people read it. Pure functions.

#include <string>

#include "cli/text.h"
#include "diagnose/resolve.h"

namespace paramedic::cli {

// What failed, where, what proves it, and what to do.
std::string verdict_text(const diagnose::Diagnosis& diagnosis, const Paint& paint, int width);

// The events in the order of the log, with the part that each played.
std::string explanation_text(const diagnose::Diagnosis& diagnosis, const Paint& paint, int width);

}  // namespace paramedic::cli
