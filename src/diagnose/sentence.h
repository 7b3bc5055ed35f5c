#pragma once
// Exceptions that share their line with other words: a traceback whose lines a logger or a JSON
// record has joined, and an error that a sentence tells of. Pure functions; safe in any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/traceback.h"

namespace paramedic::diagnose {

// The lines of a traceback that stands on one line, header first; empty where there is none.
std::vector<std::string> unfold(std::string_view line);

// "job 7 failed: KeyError: 'loss'": the exception that a sentence names, without frames.
std::optional<Exception> exception_in(std::string_view line);

}  // namespace paramedic::diagnose
