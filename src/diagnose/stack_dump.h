#pragma once
// Stacks that are printed without an exception: by faulthandler, py-spy and gdb, and by native code
// that aborts (MXNet, c10, glog). Pure functions.

#include <string_view>

#include "diagnose/traceback.h"

namespace paramedic::diagnose {

struct DumpLine {
  enum class Kind : uint8_t { kNone, kHeader, kFrame };
  Kind kind = Kind::kNone;
  Frame frame;
};

// What a line of such a stack says; kNone for any other line.
DumpLine dump_line(std::string_view text);

}  // namespace paramedic::diagnose
