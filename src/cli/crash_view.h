#pragma once
// A crash as the console shows it. Pure functions: the source with a marker, the stack, the names.

#include <string>
#include <vector>

#include "cli/text.h"
#include "recovery/crash.h"

namespace paramedic::cli {

struct CrashViewOptions {
  int width = 80;
  Paint paint{false};
};

// Who crashed and of what: two or three lines.
std::string crash_head(const recovery::Crash& crash, const CrashViewOptions& options);
// The lines around the place of frame `index`, which must exist, `>` before the one that failed.
std::string frame_view(const recovery::Crash& crash, size_t index, const CrashViewOptions& options);
// The frames, outermost first, `>` before `selected`.
std::string stack_view(const recovery::Crash& crash, size_t selected,
                       const CrashViewOptions& options);
// What names hold; all of the frame when `names` is empty.
std::string locals_view(const recovery::Frame& frame, const std::vector<std::string>& names,
                        const CrashViewOptions& options);

}  // namespace paramedic::cli
