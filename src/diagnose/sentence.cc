#include "diagnose/sentence.h"

#include <re2/re2.h>

#include <utility>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr size_t kLinesMax = 256;
constexpr std::string_view kFrameStart = "File \"";

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

// What `\n` and `\"` stand for inside the quotes of JSON or of Python's repr. JSON escapes the
// quotes of the frames, so that the first bare one ends the record.
std::vector<std::string> unescape(std::string_view text) {
  const bool is_json = contains(text, "File \\\"");
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < text.size() && lines.size() < kLinesMax; ++i) {
    if (text[i] == '"' && is_json) break;
    if (text[i] != '\\' || i + 1 == text.size()) {
      lines.back() += text[i];
      continue;
    }
    const char escaped = text[++i];
    if (escaped == 'n') {
      lines.emplace_back();
    } else {
      if (escaped != '"' && escaped != '\'' && escaped != '\\') lines.back() += '\\';
      lines.back() += escaped;
    }
  }
  return lines;
}

// Behind the last frame's code stands what was raised.
void add_last(std::string_view code, std::vector<std::string>& lines) {
  static const RE2 kRaised(
      R"((.*?)\s((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: .*)?))");
  std::string before, raised;
  if (RE2::FullMatch(piece(code), kRaised, &before, &raised)) {
    lines.push_back("    " + before);
    lines.push_back(raised);
  } else {
    lines.push_back("    " + std::string(code));
  }
}

// Where the ends of the lines have become blanks, a frame begins at each `File "`.
std::vector<std::string> split_frames(std::string_view text) {
  static const RE2 kFrame(R"((File "[^"]+", line \d+, in [\w<>]+)\s*(.*))");
  std::vector<std::string> lines;
  size_t at = text.find(kFrameStart);
  lines.emplace_back(trim(text.substr(0, at)));
  while (at != std::string_view::npos && lines.size() < kLinesMax) {
    const size_t next = text.find(kFrameStart, at + 1);
    const std::string_view frame = trim(text.substr(at, next - at));
    std::string place, code;
    if (!RE2::FullMatch(piece(frame), kFrame, &place, &code)) return {};
    lines.push_back("  " + place);
    if (next == std::string_view::npos) {
      add_last(code, lines);
    } else if (!code.empty()) {
      lines.push_back("    " + code);
    }
    at = next;
  }
  return lines;
}

}  // namespace

std::vector<std::string> unfold(std::string_view line) {
  const size_t header = line.find(kTracebackHeader);
  if (header == std::string_view::npos) return {};
  const std::string_view text = line.substr(header);
  if (!contains(text, "File ")) return {};
  return contains(text, "\\n") ? unescape(text) : split_frames(text);
}

std::optional<Exception> exception_in(std::string_view line) {
  if (!contains(line, "Error") && !contains(line, "Exception")) return std::nullopt;
  // Not what code handles or raises: "except ValueError: pass".
  static const RE2 kTold(R"((?:^|[^\w.:/'"(-])(?:(except|raise)\s+)?)"
                         R"(((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)))"
                         R"((?:(?:: |：)(\S.*)|\((['"].*)\)))");
  // Who caught it may keep its type to himself.
  static const RE2 kUntyped(R"((?:Exception|Error)(?: message| in [\w ]{1,40})?: (\S.*))");
  std::string code, type, message, quoted;
  Exception told;
  if (RE2::FullMatch(piece(line), kUntyped, &told.message)) {
    told.type = "Exception";
    return told;
  }
  if (!RE2::PartialMatch(piece(line), kTold, &code, &type, &message, &quoted)) return std::nullopt;
  if (!code.empty()) return std::nullopt;
  told.type = std::move(type);
  told.message = quoted.empty() ? std::move(message) : std::move(quoted);
  return told;
}

}  // namespace paramedic::diagnose
