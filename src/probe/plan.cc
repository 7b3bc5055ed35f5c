#include "probe/plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>

namespace paramedic::probe {
namespace {

using record::Kind;
using record::Mode;

constexpr std::string_view kDefaultPlan =
    "collection weights kind=weight interval=10 what=stats\n"
    "collection gradients kind=gradient interval=10 what=stats\n"
    "collection activations kind=activation interval=50 what=stats,units\n";

struct Word {
  std::string_view name;
  uint32_t bit;
};
template <typename Enum>
constexpr uint32_t bit_of(Enum value) {
  return 1U << static_cast<uint32_t>(value);
}
// Scalars are not in it: they are recorded whenever they are given.
constexpr uint32_t kAllTensors = ((1U << record::kKindCount) - 1) & ~bit_of(Kind::kScalar);
constexpr std::array<Word, 8> kKinds = {{{"weight", bit_of(Kind::kWeight)},
                                         {"gradient", bit_of(Kind::kGradient)},
                                         {"activation", bit_of(Kind::kActivation)},
                                         {"input", bit_of(Kind::kInput)},
                                         {"loss", bit_of(Kind::kLoss)},
                                         {"optimizer_state", bit_of(Kind::kOptimizerState)},
                                         {"other", bit_of(Kind::kOther)},
                                         {"all", kAllTensors}}};
constexpr std::array<Word, 5> kModes = {{{"train", bit_of(Mode::kTrain)},
                                         {"eval", bit_of(Mode::kEval)},
                                         {"predict", bit_of(Mode::kPredict)},
                                         {"global", bit_of(Mode::kGlobal)},
                                         {"all", (1U << record::kModeCount) - 1}}};
constexpr std::array<Word, 6> kWhats = {{{"stats", kWhatStats},
                                         {"units", kWhatStats | kWhatUnits},
                                         {"histogram", kWhatStats | kWhatHistogram},
                                         {"raw", kWhatRaw},
                                         {"shape", kWhatShape},
                                         {"prod", kWhatProduct}}};

// A place in the text, for messages.
struct Place {
  size_t line;
  size_t column;
};

Status wrong(Place place, const std::string& what, std::string hint) {
  return invalid_argument("capture plan, line " + std::to_string(place.line) + ", column " +
                              std::to_string(place.column) + ": " + what,
                          std::move(hint));
}

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

// Cuts the text up to `separator` off the front of `rest`.
std::string_view next_part(std::string_view* rest, std::string_view separators) {
  const size_t end = std::min(rest->find_first_of(separators), rest->size());
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return part;
}

Result<uint32_t> parse_words(std::string_view text, std::span<const Word> words, Place place) {
  uint32_t bits = 0;
  do {
    const std::string_view part = next_part(&text, ",");
    const auto* const found = std::find_if(words.data(), words.data() + words.size(),
                                           [&](const Word& word) { return word.name == part; });
    if (found == words.data() + words.size()) {
      std::string known;
      for (const Word& word : words) known += (known.empty() ? "" : ", ") + std::string(word.name);
      return wrong(place, "unknown word " + quoted(part), "one or more of: " + known);
    }
    bits |= found->bit;
    place.column += part.size() + 1;
  } while (!text.empty());
  return bits;
}

Result<int64_t> parse_number(std::string_view text, int64_t least, Place place) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end || number < least) {
    return wrong(place,
                 quoted(text) + " is not a whole number from " + std::to_string(least) + " on",
                 "such as 10");
  }
  return number;
}

Result<std::vector<int64_t>> parse_steps(std::string_view text, Place place) {
  std::vector<int64_t> steps;
  do {
    const std::string_view part = next_part(&text, ",");
    PARAMEDIC_ASSIGN(const int64_t step, parse_number(part, 0, place));
    if (steps.size() == kExplicitStepsMax) {
      return wrong(place, "more than " + std::to_string(kExplicitStepsMax) + " steps",
                   "use interval=, start= and end=");
    }
    steps.push_back(step);
    place.column += part.size() + 1;
  } while (!text.empty());
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

Result<NamePattern> parse_pattern(std::string_view text, Place place) {
  Result<NamePattern> pattern = NamePattern::compile(std::string(text));
  if (pattern.ok()) return pattern;
  return wrong(place, "the regex " + quoted(text) + " is not valid: " + pattern.status().message(),
               "POSIX extended syntax, found anywhere in the name; '.' matches any character");
}

Status set_option(Collection* into, std::string_view key, std::string_view value, Place place) {
  if (key == "kind") {
    PARAMEDIC_ASSIGN(into->kinds, parse_words(value, kKinds, place));
  } else if (key == "mode") {
    PARAMEDIC_ASSIGN(into->modes, parse_words(value, kModes, place));
  } else if (key == "what") {
    PARAMEDIC_ASSIGN(into->what, parse_words(value, kWhats, place));
  } else if (key == "interval") {
    PARAMEDIC_ASSIGN(into->interval, parse_number(value, 0, place));
  } else if (key == "start") {
    PARAMEDIC_ASSIGN(into->start, parse_number(value, 0, place));
  } else if (key == "end") {
    PARAMEDIC_ASSIGN(into->end, parse_number(value, -1, place));
  } else if (key == "steps") {
    PARAMEDIC_ASSIGN(into->steps, parse_steps(value, place));
  } else if (key == "regex") {
    PARAMEDIC_ASSIGN(into->pattern, parse_pattern(value, place));
  } else {
    place.column -= key.size() + 1;
    return wrong(place, "unknown key " + quoted(key),
                 "one of: kind, mode, interval, start, end, steps, what, regex");
  }
  return {};
}

// One line of a plan, cut into words from the left.
class Line {
 public:
  Line(std::string_view text, size_t number) : text_(text), number_(number) { skip_blanks(); }

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] Place place() const { return {number_, at_ + 1}; }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  std::string_view word(std::string_view separators) {
    const size_t end = std::min(text_.find_first_of(separators, at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }
  void skip(size_t bytes) { at_ += bytes; }
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  static constexpr std::string_view kBlanks = " \t\r";

 private:
  std::string_view text_;
  size_t number_;
  size_t at_ = 0;
};

Result<Collection> parse_collection(Line line) {
  const Place start = line.place();
  if (line.word(Line::kBlanks) != "collection") {
    return wrong(start, "a line begins with \"collection\"",
                 "collection NAME kind=gradient interval=10 what=stats");
  }
  line.skip_blanks();
  Collection collection;
  collection.modes = bit_of(Mode::kTrain);
  const Place name_place = line.place();
  collection.name = line.word(Line::kBlanks);
  if (collection.name.empty() || collection.name.find('=') != std::string::npos) {
    return wrong(name_place, "the collection has no name",
                 "collection NAME kind=gradient interval=10 what=stats");
  }
  std::vector<std::string_view> seen;
  for (line.skip_blanks(); !line.at_end(); line.skip_blanks()) {
    const Place key_place = line.place();
    const std::string_view key = line.word("= \t\r");
    if (line.at_end() || line.rest()[0] != '=') {
      return wrong(key_place, quoted(key) + " is not KEY=VALUE", "no blanks around '='");
    }
    line.skip(1);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return wrong(key_place, quoted(key) + " stands twice", "each key once in a line");
    }
    seen.push_back(key);
    const Place place = line.place();
    // A regex may hold blanks, so it is the rest of the line.
    std::string_view value = line.word(key == "regex" ? "\r" : Line::kBlanks);
    PARAMEDIC_TRY(set_option(&collection, key, value, place));
  }
  if (collection.kinds == 0) {
    return wrong(start, "collection " + quoted(collection.name) + " has no kind",
                 "such as kind=gradient or kind=all");
  }
  if (collection.interval == 0 && collection.steps.empty()) {
    return wrong(start, "collection " + quoted(collection.name) + " is never captured",
                 "interval=0 needs steps=");
  }
  return collection;
}

Status check_unique(const Plan& plan, const Collection& added, Place place) {
  for (const Collection& other : plan.collections) {
    if (other.name == added.name && (other.modes & added.modes) != 0) {
      return wrong(place, "collection " + quoted(added.name) + " stands twice for the same mode",
                   "one line for each mode, or another name");
    }
  }
  return {};
}

}  // namespace

bool Collection::is_due(int64_t step) const { return next_due(step) == step; }

bool Collection::is_explicit(int64_t step) const {
  return std::binary_search(steps.begin(), steps.end(), step);
}

int64_t Collection::next_explicit(int64_t step) const {
  const auto listed = std::lower_bound(steps.begin(), steps.end(), step);
  return listed == steps.end() ? std::numeric_limits<int64_t>::max() : *listed;
}

int64_t Collection::next_due(int64_t step) const {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t next = next_explicit(step);
  if (interval > 0) {
    const int64_t from = std::max(step, start);
    const int64_t past = (from - start) % interval;
    // No step is that late; the test keeps the sum from overflowing.
    if (past == 0 || from <= kNever - interval) {
      const int64_t periodic = past == 0 ? from : from + (interval - past);
      if (end < 0 || periodic < end) next = std::min(next, periodic);
    }
  }
  return next;
}

uint32_t Plan::collections_of(Kind kind, const std::string& name) const {
  uint32_t mask = 0;
  for (size_t i = 0; i < collections.size(); i++) {
    const Collection& collection = collections[i];
    if ((collection.kinds & bit_of(kind)) == 0) continue;
    if (collection.pattern.matches(name)) mask |= 1U << i;
  }
  return mask;
}

std::string_view default_plan_text() { return kDefaultPlan; }

Result<Plan> parse_plan(std::string_view text) {
  if (text.size() > kPlanBytesMax) {
    return invalid_argument("the capture plan has " + std::to_string(text.size()) + " bytes",
                            "at most " + std::to_string(kPlanBytesMax));
  }
  Plan plan;
  size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const Line line(next_part(&rest, "\n"), ++number);
    if (line.at_end() || line.rest()[0] == '#') continue;
    PARAMEDIC_ASSIGN(Collection collection, parse_collection(line));
    PARAMEDIC_TRY(check_unique(plan, collection, line.place()));
    if (plan.collections.size() == kCollectionsMax) {
      return wrong(line.place(), "more than " + std::to_string(kCollectionsMax) + " collections",
                   "join some by kind= and regex=");
    }
    plan.collections.push_back(std::move(collection));
  }
  if (plan.collections.empty()) return parse_plan(kDefaultPlan);
  return plan;
}

}  // namespace paramedic::probe
