#include "cli/test_call.h"

#include <sstream>

#include "cli/program.h"

namespace paramedic::cli {

Answer call(const std::vector<std::string>& words) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err, [](const char*) -> const char* { return nullptr; }};
  const int code = run_program(words, console);
  return {code, out.str(), err.str()};
}

}  // namespace paramedic::cli
