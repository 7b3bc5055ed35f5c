#include "diagnose/prefix.h"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr int kPrefixesMax = 8;

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

// Moves `line` past `pattern` when it stands at its start, and notes the writer.
bool strip_writer(const RE2& pattern, Prefixed& line, int& number) {
  re2::StringPiece rest = piece(line.text);
  if (!RE2::Consume(&rest, pattern, &number)) return false;
  if (line.writer.empty()) {
    line.writer = trim(line.text.substr(0, line.text.size() - rest.size()));
  }
  line.text = {rest.data(), rest.size()};
  return true;
}

bool strip_rank(Prefixed& line) {
  static const RE2 kBracketed(
      R"(\[(?:(?i)rank|default|worker|local_rank|proc)[ :=_-]{0,2}(\d{1,6})\]:?\s?)");
  static const RE2 kMpi(R"(\[\d{1,4},(\d{1,6})\]<std(?:out|err|diag)>:\s?)");
  static const RE2 kWord(R"((?:(?i)rank|worker)[ :=_-]{0,2}(\d{1,6})\s?[:|>]\s)");
  static const RE2 kRay(
      R"(\((?:[\w.:<> -]{1,80}, |[\w.:<> -]{1,80} )?pid=(\d+)(?:, ip=[\w.:]+)?\)\s?)");
  static const RE2 kCompose(R"([A-Za-z0-9][\w.-]{0,80}?[-_](\d{1,6})\s{1,40}\|\s?)");
  static const RE2 kPod(R"(\[pod/[\w.-]+?-(\d{1,6})(?:/[\w.-]+)?\]\s?)");
  int number = -1;
  for (const RE2* pattern : {&kBracketed, &kMpi, &kWord, &kCompose, &kPod}) {
    if (strip_writer(*pattern, line, number)) {
      if (line.rank < 0) line.rank = number;
      return true;
    }
  }
  return strip_writer(kRay, line, number);  // a process, not a rank
}

double civil_seconds(int year, int month, int day) {
  // Days from civil (Howard Hinnant), valid for the Gregorian calendar.
  year -= month <= 2 ? 1 : 0;
  const int era = (year >= 0 ? year : year - 399) / 400;
  const int of_era = year - era * 400;
  const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
  return (era * 146097.0 + days - 719468.0) * 86400.0;
}

bool strip_time(Prefixed& line) {
  static const RE2 kDated(
      R"(\[?(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?))"
      R"(\s?(?:Z|[+-]\d\d:?\d\d)?\]?(?:\s(?:stdout|stderr)\s[FP])?[:|,]?\s?)");
  static const RE2 kClock(R"(\[?(\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?)\]?[:|,]?\s)");
  static const RE2 kSyslog(R"([A-Z][a-z]{2} [ \d]\d (\d\d):(\d\d):(\d\d(?:\.\d+)?) [\w.-]+ )"
                           R"((?:[\w./-]+(?:\[\d+\])?: )?)");
  static const RE2 kKernel(R"(\[\s*\d+\.\d{6}\]\s)");
  static const RE2 kShort(R"(\[\d\d?/\d\d?(?:/\d{2,4})? (\d\d):(\d\d):(\d\d)[^\]]{0,40}\]:?\s?)");
  re2::StringPiece rest = piece(line.text);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  std::string second;
  double date_s = 0;
  if (RE2::Consume(&rest, kDated, &year, &month, &day, &hour, &minute, &second)) {
    date_s = civil_seconds(year, month, day);
  } else if (!RE2::Consume(&rest, kClock, &hour, &minute, &second) &&
             !RE2::Consume(&rest, kSyslog, &hour, &minute, &second) &&
             !RE2::Consume(&rest, kShort, &hour, &minute, &second)) {
    if (!RE2::Consume(&rest, kKernel)) return false;
    line.text = {rest.data(), rest.size()};
    return true;
  }
  if (std::isnan(line.time_s)) {
    std::replace(second.begin(), second.end(), ',', '.');
    line.time_s = date_s + hour * 3600.0 + minute * 60.0 + std::strtod(second.c_str(), nullptr);
  }
  line.text = {rest.data(), rest.size()};
  return true;
}

bool strip_level(Prefixed& line) {
  static const RE2 kLevel(R"(\[?(DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)\]?)"
                          R"((?::[\w./-]{0,80}:|:|\s-|\s\||\s)\s?)");
  // "time - name - LEVEL - text", as many programs set up Python's logging.
  static const RE2 kNamed(
      R"(- [\w.-]{1,80} - (DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL) - )");
  static const RE2 kGlog(R"(([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] )");
  // Quotes of an issue, and what pytest puts before an error.
  static const RE2 kQuote(R"((?:>|\|)\s|E(?: {7}| {3}))");
  re2::StringPiece rest = piece(line.text);
  std::string name;
  if (RE2::Consume(&rest, kLevel, &name) || RE2::Consume(&rest, kNamed, &name) ||
      RE2::Consume(&rest, kGlog, &name)) {
    const char first = name[0];
    line.level = first == 'W'                                   ? Level::kWarning
                 : first == 'E' || first == 'C' || first == 'F' ? Level::kError
                                                                : Level::kInfo;
  } else if (!RE2::Consume(&rest, kQuote)) {
    return false;
  }
  line.text = {rest.data(), rest.size()};
  return true;
}

// Rich draws a box around a traceback.
bool strip_box(Prefixed& line) {
  constexpr std::string_view kBar = "\xe2\x94\x82";  // │
  if (!line.text.starts_with(kBar)) return false;
  line.text.remove_prefix(kBar.size());
  if (line.text.ends_with(kBar)) line.text.remove_suffix(kBar.size());
  line.text = trim(line.text);
  // Source lines around the frame's say nothing about what happened.
  static const RE2 kSource(R"((?:❱\s*)?\d+(?:\s.*)?)");
  if (RE2::FullMatch(piece(line.text), kSource)) line.text = {};
  return true;
}

bool starts_structure(std::string_view text) {
  const std::string_view at = trim_left(text);
  return at.starts_with(kTracebackHeader) || at.starts_with("File \"");
}

// "3: text", as `srun -l` and some launchers write: only where it is known to mean a rank.
bool strip_number(Prefixed& line, bool known) {
  static const RE2 kNumbered(R"(\s{0,4}\[?(\d{1,5})\]?:\s?)");
  Prefixed stripped = line;
  int number = -1;
  if (!strip_writer(kNumbered, stripped, number)) return false;
  if (!known && !starts_structure(stripped.text)) return false;
  if (stripped.rank < 0) stripped.rank = number;
  line = stripped;
  return true;
}

// The last whole number in `text`, or -1.
int last_number(std::string_view text) {
  static const RE2 kLast(R"(.*?(\d{1,6})\D*)");
  int number = -1;
  return RE2::FullMatch(piece(text), kLast, &number) ? number : -1;
}

}  // namespace

bool PrefixSplitter::strip_learned(Prefixed& line) const {
  // The longest that fits.
  for (size_t length = std::min(line.text.size(), kPrefixMax); length > 0; --length) {
    if (!lengths_[length]) continue;
    const auto known = learned_.find(line.text.substr(0, length));
    if (known == learned_.end()) continue;
    if (line.writer.empty()) line.writer = *known;
    if (line.rank < 0) line.rank = last_number(*known);
    line.text.remove_prefix(length);
    return true;
  }
  return false;
}

// A traceback's header rarely stands behind other text. What stands there is a progress bar or a
// sentence, once, or the prefix of a writer: a sentence that is taken for one does no harm, since
// no further line begins with it.
void PrefixSplitter::learn(std::string_view line) {
  const size_t at = line.find(kTracebackHeader);
  if (at == std::string_view::npos || at == 0 || at > kPrefixMax) return;
  const std::string_view before = line.substr(0, at);
  const bool marked = before.find_first_of("0123456789[](){}|>#=@") != std::string_view::npos;
  const bool bar = contains(before, "%|") || contains(before, "it/s") || contains(before, "s/it");
  if (!marked || bar || before == "Original " || learned_.size() == kLearnedMax) return;
  learned_.emplace(before);
  lengths_.set(before.size());
}

Prefixed PrefixSplitter::split(std::string_view line) {
  Prefixed result;
  result.text = line;
  // Who quotes a log sets it off by marks: the first line is its writer's like the others.
  while (result.text.starts_with('`')) result.text.remove_prefix(1);
  bool box = false;
  for (int i = 0; i < kPrefixesMax && !result.text.empty(); ++i) {
    // Cheap to tell: prefixes begin with none of these.
    const char first = result.text.front();
    if (first == ' ' || first == '\t') {
      if (i == 0 && numbered_ && strip_number(result, true)) continue;
      break;
    }
    if (strip_rank(result) || strip_time(result) || strip_level(result)) continue;
    if (strip_learned(result)) continue;
    if (!box && strip_box(result)) {
      box = true;
      continue;
    }
    if (strip_number(result, numbered_)) {
      numbered_ = true;
      continue;
    }
    break;
  }
  if (contains(result.text, kTracebackHeader)) {
    learn(result.text);
    strip_learned(result);
  }
  return result;
}

}  // namespace paramedic::diagnose
