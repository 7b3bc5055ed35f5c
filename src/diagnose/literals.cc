#include "diagnose/literals.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/utf8.h"

namespace paramedic::diagnose {
namespace {

// So many texts are kept apart where parts of an expression stand behind each other.
constexpr size_t kTextsMax = 64;
constexpr size_t kClassMax = 8;
constexpr size_t kLiteralsMax = 1024;
constexpr int kDepthMax = 32;
// Of literals that are longer than this the fewer are the better ones.
constexpr size_t kLongEnough = 5;

constexpr std::string_view kLongS = "\xc5\xbf";       // ſ, which (?i) takes for an s
constexpr std::string_view kKelvin = "\xe2\x84\xaa";  // K, which it takes for a k

using Texts = std::vector<std::string>;

void make_unique(Texts& texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
}

size_t shortest(const Texts& texts) {
  size_t bytes = texts.empty() ? 0 : texts.front().size();
  for (const std::string& text : texts) bytes = std::min(bytes, text.size());
  return bytes;
}

// Takes `other` in the place of `best` where one of it is seldomer found in a text without a match.
void take_better(Texts& best, const Texts& other) {
  const size_t bytes_best = std::min(shortest(best), kLongEnough);
  const size_t bytes_other = std::min(shortest(other), kLongEnough);
  const bool is_smaller = other.size() < best.size() && !other.empty();
  if (bytes_other > bytes_best || (bytes_other == bytes_best && is_smaller)) best = other;
}

// What is known of the texts that a part of an expression matches.
struct Known {
  bool is_exact = false;
  Texts texts;  // exact: all of them; else one of them stands in each match; empty: nothing known
};

Known exactly(std::string text) { return {true, {std::move(text)}}; }

char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// A piece of an expression after the other, as RE2 parses them.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<Alternative> read() {
    alternation(true);
    if (at_ != text_.size() || !is_understood_) return {{std::string(text_), {}}};
    return std::move(alternatives_);
  }

 private:
  [[nodiscard]] bool is_over() const { return at_ >= text_.size() || !is_understood_; }
  [[nodiscard]] char here() const { return is_over() ? '\0' : text_[at_]; }
  bool take(std::string_view part) {
    if (is_over() || text_.substr(at_, part.size()) != part) return false;
    at_ += part.size();
    return true;
  }
  Known not_understood() {
    is_understood_ = false;
    return {};
  }

  // (?i) and its like hold up to the end of the group, behind a bar too.
  Known alternation(bool is_top) {
    Known all{true, {}};
    bool is_known = true;
    do {
      const std::string before = flags_.empty() ? "" : "(?" + flags_ + ")";
      const size_t begin = at_;
      const Known one = sequence();
      if (is_top) add_alternative(before + std::string(text_.substr(begin, at_ - begin)), one);
      all.is_exact = all.is_exact && one.is_exact;
      is_known = is_known && shortest(one.texts) + (one.is_exact ? 1 : 0) > 0;
      all.texts.insert(all.texts.end(), one.texts.begin(), one.texts.end());
    } while (take("|"));
    make_unique(all.texts);
    if (!is_known || all.texts.size() > kLiteralsMax) return {};
    return all;
  }

  void add_alternative(std::string expression, const Known& known) {
    const bool tells = shortest(known.texts) >= kLiteralBytesMin;
    alternatives_.push_back({std::move(expression), tells ? known.texts : Texts()});
  }

  Known sequence() {
    Texts best;
    Texts run = {""};  // what stands since the last part that may be anything
    bool is_exact = true;
    while (!is_over() && here() != '|' && here() != ')') {
      Known part = repeated(atom());
      if (part.is_exact && part.texts.size() == 1) {
        for (std::string& text : run) text += part.texts.front();
        continue;
      }
      if (part.is_exact && run.size() * part.texts.size() <= kTextsMax) {
        Texts longer;
        for (const std::string& front : run) {
          for (const std::string& back : part.texts) longer.push_back(front + back);
        }
        run = std::move(longer);
        make_unique(run);
        continue;
      }
      is_exact = false;
      take_better(best, run);
      if (part.is_exact) {
        run = std::move(part.texts);
      } else {
        take_better(best, part.texts);
        run = {""};
      }
    }
    if (is_exact) return {true, std::move(run)};
    take_better(best, run);
    return {false, std::move(best)};
  }

  Known repeated(Known part) {
    for (;;) {
      int least = 0;
      int most = -1;
      if (take("?")) {
        most = 1;
      } else if (take("+")) {
        least = 1;
      } else if (!take("*") && !counted(least, most)) {
        return part;
      }
      (void)take("?");  // as few as possible: the same texts
      if (least == 1 && most == 1) continue;
      const bool may_be_absent = least == 0;
      if (part.is_exact && may_be_absent && most == 1) {
        part.texts.emplace_back();
        make_unique(part.texts);
      } else {
        part.is_exact = false;
        if (may_be_absent) part.texts.clear();
      }
    }
  }

  // "{2}", "{2,}", "{2,3}"; other braces stand for themselves.
  bool counted(int& least, int& most) {
    const size_t begin = at_;
    if (take("{") && number(least)) {
      most = least;
      const bool is_open = take(",");
      if (is_open && !number(most)) most = -1;
      if (take("}")) return true;
    }
    at_ = begin;
    return false;
  }

  bool number(int& value) {
    constexpr int kMost = 100'000;
    const size_t begin = at_;
    value = 0;
    while (std::isdigit(static_cast<unsigned char>(here())) != 0 && value < kMost) {
      value = value * 10 + (text_[at_++] - '0');
    }
    return at_ > begin;
  }

  Known atom() {
    if (take("(")) return group();
    if (take("[")) return char_class();
    if (take(".")) return {};
    if (take("^") || take("$")) return exactly("");
    if (take("\\")) return escape();
    const char c = here();
    if (c == '*' || c == '+' || c == '?') return not_understood();
    return character();
  }

  // Letters are folded: which case is meant is left to the expression.
  Known character() {
    const size_t begin = at_++;
    if (static_cast<unsigned char>(text_[begin]) < 0x80) {
      return exactly({small_letter(text_[begin])});
    }
    while (!is_over() && (static_cast<unsigned char>(text_[at_]) & 0xc0U) == 0x80U) ++at_;
    if (flags_.find('i') != std::string::npos) return {};
    return exactly(folded(text_.substr(begin, at_ - begin)));
  }

  Known group() {
    if (++depth_ > kDepthMax) return not_understood();
    const std::string outer = flags_;
    if (take("?")) {
      if (!take_flags()) return not_understood();
      if (take(")")) {
        --depth_;
        return exactly("");
      }
      if (!take(":")) return not_understood();
    }
    Known inner = alternation(false);
    if (!take(")")) return not_understood();
    flags_ = outer;
    --depth_;
    return inner;
  }

  // Of the flags only those that are on are kept.
  bool take_flags() {
    bool is_off = false;
    for (; std::isalpha(static_cast<unsigned char>(here())) != 0 || here() == '-'; ++at_) {
      const char c = here();
      if (c == '-') {
        is_off = true;
        continue;
      }
      if (c != 'i' && c != 's') return false;
      std::erase(flags_, c);
      if (!is_off) flags_ += c;
    }
    return true;
  }

  Known escape() {
    const char c = here();
    ++at_;
    if (c == '\0') return not_understood();
    if (std::string_view("wWdDsS").find(c) != std::string_view::npos) return {};
    if (std::string_view("bBAz").find(c) != std::string_view::npos) return exactly("");
    if (const auto meant = control(c)) return exactly({*meant});
    if (std::ispunct(static_cast<unsigned char>(c)) == 0) return not_understood();
    return exactly({c});
  }

  static std::optional<char> control(char c) {
    constexpr std::string_view kNames = "ntrfva";
    constexpr std::string_view kMeanings = "\n\t\r\f\v\a";
    const size_t index = kNames.find(c);
    return index == std::string_view::npos ? std::nullopt : std::optional(kMeanings[index]);
  }

  // Few characters are told apart; ranges, kinds and what is not of ASCII may be anything.
  Known char_class() {
    bool is_any = take("^");
    Known all{true, {}};
    for (bool is_first = true; is_first || here() != ']'; is_first = false) {
      if (is_over() || take("[:")) return not_understood();
      const bool is_escaped = take("\\");
      const char c = here();
      ++at_;
      if (c == '\0') return not_understood();
      const bool is_kind = is_escaped && std::ispunct(static_cast<unsigned char>(c)) == 0;
      if (is_kind && std::string_view("wWdDsSntrfva").find(c) == std::string_view::npos) {
        return not_understood();
      }
      const bool is_range = here() == '-' && text_.substr(at_, 2) != "-]";
      is_any = is_any || is_kind || is_range || static_cast<unsigned char>(c) >= 0x80;
      if (is_range) at_ += 1;  // its end is read as a character of its own
      all.texts.push_back({small_letter(c)});
    }
    ++at_;
    make_unique(all.texts);
    if (is_any || all.texts.size() > kClassMax) return {};
    return all;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool is_understood_ = true;
  std::string flags_;
  std::vector<Alternative> alternatives_;
};

}  // namespace

std::vector<Alternative> alternatives_of(std::string_view expression) {
  return Reader(expression).read();
}

std::string folded(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = small_letter(c);
  if (is_ascii(small)) return small;
  size_t to = 0;
  for (size_t from = 0; from < small.size();) {
    const std::string_view rest = std::string_view(small).substr(from);
    const bool is_s = rest.starts_with(kLongS);
    const bool is_k = rest.starts_with(kKelvin);
    small[to++] = is_s ? 's' : is_k ? 'k' : rest.front();
    from += is_s ? kLongS.size() : is_k ? kKelvin.size() : 1;
  }
  small.resize(to);
  return small;
}

}  // namespace paramedic::diagnose
