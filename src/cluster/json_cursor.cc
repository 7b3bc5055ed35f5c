#include "cluster/json_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <system_error>

namespace paramedic::cluster {
namespace {

constexpr auto kNumberCharacters = [] {
  std::array<bool, 256> of_number{};
  for (const char c : std::string_view("0123456789-+.eE")) {
    of_number[static_cast<unsigned char>(c)] = true;
  }
  return of_number;
}();

bool is_number_character(char c) { return kNumberCharacters[static_cast<unsigned char>(c)]; }

constexpr size_t kDigitsMax = 19;  // that an uint64_t holds, whatever they are

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

}  // namespace

void JsonCursor::fail(const char* what) {
  if (error_.empty()) error_ = fmt::format("{} at offset {}", what, at_);
  at_ = text_.size();
}

JsonCursor::Kind JsonCursor::next() {
  white();
  if (at_ >= text_.size()) return Kind::kEnd;
  switch (text_[at_]) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kString;
    case 't':
      return Kind::kTrue;
    case 'f':
      return Kind::kFalse;
    case 'n':
      return Kind::kNull;
    default:
      return Kind::kNumber;
  }
}

bool JsonCursor::is_at_end() {
  white();
  return at_ >= text_.size();
}

bool JsonCursor::expect(char wanted) {
  white();
  if (at_ >= text_.size() || text_[at_] != wanted) {
    fail("something else is expected");
    return false;
  }
  ++at_;
  return true;
}

// False, too, when nothing stands between the brackets.
bool JsonCursor::open(char begin, char end) {
  if (depth_ >= kDepthMax) {
    fail("values lie too deep");
    return false;
  }
  if (!expect(begin)) return false;
  white();
  if (at_ < text_.size() && text_[at_] == end) {
    ++at_;
    return false;
  }
  ++depth_;
  return true;
}

bool JsonCursor::goes_on(char end) {
  white();
  if (at_ < text_.size() && text_[at_] == ',') {
    ++at_;
    return true;
  }
  --depth_;
  (void)expect(end);
  return false;
}

bool JsonCursor::remember(JsonLayout& layout, size_t key_at, size_t value_at) const {
  if (layout.members_.size() >= JsonLayout::kMembersMax) return false;
  layout.members_.push_back(
      {text_.substr(key_at, value_at - key_at), text_.substr(value_at, at_ - value_at)});
  return true;
}

std::string_view JsonCursor::string(std::string& scratch) {
  white();
  if (at_ >= text_.size() || text_[at_] != '"') {
    fail("a text is expected");
    return {};
  }
  const size_t begin = ++at_;
  const auto* quote =
      static_cast<const char*>(std::memchr(text_.data() + at_, '"', text_.size() - at_));
  if (quote == nullptr) {
    fail("a text does not end");
    return {};
  }
  const auto end = static_cast<size_t>(quote - text_.data());
  const std::string_view plain = text_.substr(begin, end - begin);
  if (plain.find('\\') != std::string_view::npos) return escaped(begin, scratch);
  at_ = end + 1;
  return plain;
}

std::string_view JsonCursor::escaped(size_t begin, std::string& scratch) {
  scratch.clear();
  at_ = begin;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') return scratch;
    if (c != '\\') {
      scratch += c;
    } else if (!escape(scratch)) {
      break;
    }
  }
  fail("a text does not end");
  return {};
}

bool JsonCursor::escape(std::string& scratch) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  if (at_ >= text_.size()) return false;
  const char name = text_[at_++];
  if (name != 'u') {
    const size_t known = kNames.find(name);
    if (known == std::string_view::npos) return false;
    scratch += kMeant[known];
    return true;
  }
  uint32_t code = 0;
  if (!hex(code)) return false;
  const bool is_first_half = code >= 0xD800 && code < 0xDC00;
  if (is_first_half) {
    uint32_t second = 0;
    if (text_.substr(at_, 2) != "\\u") return false;
    at_ += 2;
    if (!hex(second) || second < 0xDC00 || second > 0xDFFF) return false;
    code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
  }
  append_utf8(scratch, code);
  return true;
}

bool JsonCursor::hex(uint32_t& code) {
  if (text_.size() - at_ < 4) return false;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
  at_ += 4;
  return error == std::errc() && end == begin + 4;
}

std::optional<int64_t> JsonCursor::integer() {
  if (next() != Kind::kNumber) {
    skip();
    return std::nullopt;
  }
  // Most are neither negative nor too large, and stand before something else than a number.
  uint64_t digits = 0;
  size_t behind = at_;
  const size_t last = std::min(text_.size(), at_ + kDigitsMax);
  for (; behind < last && text_[behind] >= '0' && text_[behind] <= '9'; ++behind) {
    digits = digits * 10 + static_cast<uint64_t>(text_[behind] - '0');
  }
  const bool is_short = behind > at_ && behind < text_.size() && digits <= INT64_MAX;
  if (is_short && !is_number_character(text_[behind])) {
    at_ = behind;
    return static_cast<int64_t>(digits);
  }
  int64_t value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  const auto after = static_cast<size_t>(end - text_.data());
  const bool is_whole =
      error == std::errc() && (after >= text_.size() || !is_number_character(text_[after]));
  if (!is_whole) {
    skip_number();
    return std::nullopt;
  }
  at_ = after;
  return value;
}

void JsonCursor::skip_number() {
  const size_t begin = at_;
  while (at_ < text_.size() && is_number_character(text_[at_])) ++at_;
  if (at_ == begin) fail("no value begins like this");
}

void JsonCursor::skip() {
  const auto word = [&](std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return fail("no value begins like this");
    at_ += expected.size();
  };
  switch (next()) {
    case Kind::kObject:
      return object([](std::string_view) {});
    case Kind::kArray:
      return array([] {});
    case Kind::kString:
      (void)string(scratch_);
      return;
    case Kind::kTrue:
      return word("true");
    case Kind::kFalse:
      return word("false");
    case Kind::kNull:
      return word("null");
    case Kind::kNumber:
      return skip_number();
    case Kind::kEnd:
      return fail("it ends too early");
  }
}

}  // namespace paramedic::cluster
