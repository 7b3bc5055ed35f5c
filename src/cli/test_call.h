#pragma once
// For tests: the whole program, called in this process.

#include <string>
#include <vector>

namespace paramedic::cli {

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

// `words` are argv without the program's name; the environment is empty.
Answer call(const std::vector<std::string>& words);

}  // namespace paramedic::cli
