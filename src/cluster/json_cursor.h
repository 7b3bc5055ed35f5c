#pragma once
// Reads JSON text from front to back without making values of it: at gigabytes a second, where a
// document of the dumps of 10,000 ranks would take minutes. What is malformed is an error with its
// offset; bytes within strings are not checked to be UTF-8. One thread.

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paramedic::cluster {

// How the last one of many objects looked that mostly look alike.
class JsonLayout {
 public:
  static constexpr size_t kMembersMax = 64;  // of an object that is remembered

  void forget() { members_.clear(); }

 private:
  friend class JsonCursor;
  struct Member {
    std::string_view key;    // all before the value: `"name": `
    std::string_view value;  // behind it in the text
  };
  std::vector<Member> members_;  // empty: none is remembered
};

class JsonCursor {
 public:
  using Layout = JsonLayout;
  static constexpr const char* kDamaged = "the JSON is damaged: ";

  // `text` outlives the cursor.
  explicit JsonCursor(std::string_view text) : text_(text) {}

  // "" while all went well; what is read after an error is nothing.
  [[nodiscard]] const std::string& error() const { return error_; }

  enum class Kind : uint8_t { kObject, kArray, kString, kNumber, kTrue, kFalse, kNull, kEnd };
  // Of the value that comes next.
  Kind next();
  // Text shares nothing.
  [[nodiscard]] static uint64_t identity() { return 0; }

  // Calls `member(key)` for each member of the object that comes next; `key` is valid until the
  // cursor moves. The function reads the value, or leaves it to be passed over.
  template <typename Member>
  void object(const Member& member) {
    if (!open('{', '}')) return;
    do {
      const std::string_view key = string(key_);
      if (!expect(':')) return;
      value(key, member);
    } while (goes_on('}'));
  }
  // The same, and remembers how the object looks.
  template <typename Member>
  void object(JsonLayout& layout, const Member& member) {
    layout.members_.clear();
    if (!open('{', '}')) return;
    bool is_plain = true;
    do {
      const size_t key_at = at_;
      const std::string_view key = string(key_);
      if (!expect(':')) return;
      white();
      const size_t value_at = at_;
      value(key, member);
      is_plain = is_plain && remember(layout, key_at, value_at);
    } while (goes_on('}'));
    if (!is_plain) layout.members_.clear();
  }
  // The next object, when it has the members of the one that `layout` remembers: calls
  // `changed(number)` for each whose value is another one than then. False, and nothing is passed,
  // when it has others; what `changed` was told then is void.
  template <typename Changed>
  bool object_like(JsonLayout& layout, const Changed& changed) {
    const size_t begin = at_;
    const auto is_next = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
    if (layout.members_.empty() || depth_ >= kDepthMax || !is_next('{')) return false;
    ++at_;
    ++depth_;
    for (size_t i = 0; i < layout.members_.size(); ++i) {
      JsonLayout::Member& member = layout.members_[i];
      const char end = i + 1 < layout.members_.size() ? ',' : '}';
      if (!passes(member, end)) {
        if (!text_.substr(at_).starts_with(member.key)) break;
        member.key = text_.substr(at_, member.key.size());
        at_ += member.key.size();
        const size_t value_at = at_;
        value([&] { changed(i); });
        member.value = text_.substr(value_at, at_ - value_at);
        white();
        if (!is_next(end)) break;
      }
      ++at_;
      if (end == '}') {
        --depth_;
        return true;
      }
    }
    if (!error_.empty()) return true;
    at_ = begin;
    --depth_;
    return false;
  }
  // The same for the items of an array: `item()`.
  template <typename Item>
  void array(const Item& item) {
    if (!open('[', ']')) return;
    do {
      value(item);
    } while (goes_on(']'));
  }

  // The text that comes next, valid until the cursor moves, but for `key` of `object`. Empty, and
  // an error, when something else comes.
  std::string_view string() { return string(scratch_); }
  // A whole number; nothing when something else comes, or one that no int64_t holds. Passes it.
  std::optional<int64_t> integer();
  // Passes a value of any kind.
  void skip();
  // Nothing but white space is left.
  bool is_at_end();

 private:
  static constexpr int kDepthMax = 64;

  template <typename Member>
  void value(std::string_view key, const Member& member) {
    white();  // which a look at the kind passes too
    const size_t before = at_;
    member(key);
    if (at_ == before) skip();
  }
  template <typename Item>
  void value(const Item& item) {
    white();
    const size_t before = at_;
    item();
    if (at_ == before) skip();
  }

  void white() {
    // No white space lies above it.
    while (at_ < text_.size() && static_cast<unsigned char>(text_[at_]) <= ' ' &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  // Passes a member that is as it was, up to the `end` behind it.
  bool passes(const JsonLayout::Member& member, char end) {
    const char* rest = text_.data() + at_;
    const size_t bytes = member.key.size() + member.value.size();
    if (text_.size() - at_ <= bytes || rest[bytes] != end) return false;
    // Both stand in one piece where they were read.
    if (std::memcmp(rest, member.key.data(), bytes) != 0) return false;
    at_ += bytes;
    return true;
  }
  // False: the object has too many members.
  bool remember(JsonLayout& layout, size_t key_at, size_t value_at) const;
  bool open(char begin, char end);
  bool expect(char wanted);
  // Passes a comma; false at `end`, which is passed too.
  bool goes_on(char end);
  std::string_view string(std::string& scratch);
  std::string_view escaped(size_t begin, std::string& scratch);
  bool escape(std::string& scratch);
  bool hex(uint32_t& code);
  void skip_number();
  void fail(const char* what);

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string key_;
  std::string scratch_;
  std::string error_;
};

}  // namespace paramedic::cluster
