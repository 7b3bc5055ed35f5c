// Log text from any bytes, through the whole pipeline: it ends, the verdict is printable, and the
// evidence lies within the text.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "diagnose/diagnose.h"

namespace {

using namespace paramedic;

void check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  const auto lines = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const diagnose::Diagnosis diagnosis = diagnose::diagnose_text("job.log", text);
  for (const diagnose::Evidence& piece : diagnosis.verdict.evidence) {
    check(piece.line >= 1 && piece.line <= lines && piece.offset < bytes);
  }
  check(parse_json(to_text(to_json(diagnosis.verdict)), "verdict").ok());
  return 0;
}
