#pragma once
// What the traceback of a crash says, taken apart: the files of the stack and the lines of code at
// which its frames stand. Views into the crash's text. No state.

#include <string_view>
#include <vector>

#include "recovery/crash.h"

namespace paramedic::recovery {

struct StackText {
  std::vector<std::string_view> files;  // of every frame, outermost first
  // The line of code of the crashed frame and of those of libraries below it.
  std::vector<std::string_view> code;
};

// Of the last traceback in the text, which is that of the exception itself.
StackText stack_text(const Crash& crash);

}  // namespace paramedic::recovery
