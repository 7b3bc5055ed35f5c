#include "diagnose/stack_dump.h"

#include <re2/re2.h>

#include <cstdlib>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

// faulthandler; py-spy.
const RE2& header() {
  static const RE2 kHeader(
      R"(\s*(?:Current thread|Thread) 0x[0-9a-f]+ (?:\[.{0,64}\] )?\(most recent call first\):)"
      R"(|Thread (?:0x[0-9A-Fa-f]+|\d+) \((?:active|idle)(?:\+gil)?\)(?:: ".{0,64}")?)"
      R"(|Stack trace(?: returned \d+ entries)?:|\*\*\* .{0,160}; stack trace: \*\*\*)");
  return kHeader;
}

bool python_frame(std::string_view text, Frame& frame) {
  static const RE2 kFaulthandler(R"re(\s*File "([^"]+)", line (\d+) in (\S+))re");
  static const RE2 kPySpy(R"(\s{2,}([\w.<>]+) \(([^\s:()]+\.py):(\d+)\))");
  const re2::StringPiece whole(text.data(), text.size());
  return RE2::FullMatch(whole, kFaulthandler, &frame.file, &frame.line, &frame.function) ||
         RE2::FullMatch(whole, kPySpy, &frame.function, &frame.file, &frame.line);
}

bool native_frame(std::string_view text, Frame& frame) {
  static const RE2 kMxnet(R"(\s*\[bt\] \(\d+\) ([^\s(]+)\((.*)\) \[0x[0-9a-f]+\])");
  static const RE2 kC10(R"(\s*frame #\d+: (.*) \(0x[0-9a-f]+ in ([^)]+)\))");
  static const RE2 kGlog(R"(\s*@\s+0x[0-9a-f]+ +(?:\(unknown\)|(.*)))");
  static const RE2 kGdb(R"(#\d+ +0x[0-9a-f]+ in (.+?) \(.*\)(?: (?:from|at) (\S+))?)");
  const re2::StringPiece whole(text.data(), text.size());
  return RE2::FullMatch(whole, kMxnet, &frame.file, &frame.function) ||
         RE2::FullMatch(whole, kC10, &frame.function, &frame.file) ||
         RE2::FullMatch(whole, kGlog, &frame.function) ||
         RE2::FullMatch(whole, kGdb, &frame.function, &frame.file);
}

}  // namespace

DumpLine dump_line(std::string_view text) {
  DumpLine line;
  const re2::StringPiece bare(text.data(), text.size());
  if (RE2::FullMatch(bare, header())) {
    line.kind = DumpLine::Kind::kHeader;
  } else if (python_frame(text, line.frame)) {
    line.kind = DumpLine::Kind::kFrame;
    line.frame.role = role_of(line.frame.file);
  } else if (native_frame(text, line.frame)) {
    line.kind = DumpLine::Kind::kFrame;
    line.frame.role = FrameRole::kNative;
  }
  return line;
}

}  // namespace paramedic::diagnose
