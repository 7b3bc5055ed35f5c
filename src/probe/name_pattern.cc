#include "probe/name_pattern.h"

#include <array>

namespace paramedic::probe {
namespace {

// Why `text` is refused before libc sees it; "" if it is not.
std::string refused(const std::string& text) {
  if (text.size() > NamePattern::kBytesMax) {
    return "it is longer than " + std::to_string(NamePattern::kBytesMax) + " bytes";
  }
  if (text.find('\0') != std::string::npos) return "it has a zero byte";
  int pluses = 0;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '+' && ++pluses > NamePattern::kPlusesMax) {
      return "it has more than " + std::to_string(NamePattern::kPlusesMax) + " '+'";
    }
    if (text[i] == '{') return "counts in braces are not supported";
    if (text[i] != '\\') continue;
    i++;
    if (i < text.size() && text[i] >= '0' && text[i] <= '9') {
      return "references back to a group are not supported";
    }
  }
  return {};
}

}  // namespace

Result<NamePattern> NamePattern::compile(const std::string& text) {
  if (std::string why = refused(text); !why.empty()) return invalid_argument(std::move(why));
  auto regex = std::make_unique<regex_t>();
  if (const int error = ::regcomp(regex.get(), text.c_str(), REG_EXTENDED | REG_NOSUB);
      error != 0) {
    std::array<char, 128> why{};
    ::regerror(error, regex.get(), why.data(), why.size());
    return invalid_argument(why.data());
  }
  NamePattern pattern;
  pattern.regex_.reset(regex.release());
  return pattern;
}

bool NamePattern::matches(const std::string& name) const {
  return !regex_ || ::regexec(regex_.get(), name.c_str(), 0, nullptr, 0) == 0;
}

void NamePattern::Free::operator()(regex_t* regex) const {
  ::regfree(regex);
  delete regex;
}

}  // namespace paramedic::probe
