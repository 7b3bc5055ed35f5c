#pragma once
// A file of the job in the person's own editor, and what was changed there as a unified diff. The
// file itself stays as it is. Starts programs: the editor and `diff`.

#include <string>

#include "base/status.h"

namespace paramedic::cli {

// `path` is opened at `line` in `editor` (as in $EDITOR), as a copy. "" when nothing was changed.
Result<std::string> edit_source(const std::string& path, int line, const std::string& editor);

// The difference between two files as a unified diff of `path`.
Result<std::string> unified_diff(const std::string& before, const std::string& after,
                                 const std::string& path);

}  // namespace paramedic::cli
