#pragma once
// Reads JSON text from front to back without making values of it: at a gigabyte a second, where a
// document of the dumps of 10,000 ranks would take minutes. What is malformed is an error with its
// offset; bytes within strings are not checked to be UTF-8. One thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paramedic::cluster {

class JsonCursor {
 public:
  // `text` outlives the cursor.
  explicit JsonCursor(std::string_view text) : text_(text) {}

  // "" while all went well; what is read after an error is nothing.
  [[nodiscard]] const std::string& error() const { return error_; }

  enum class Kind : uint8_t { kObject, kArray, kString, kNumber, kTrue, kFalse, kNull, kEnd };
  // Of the value that comes next.
  Kind next();

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

  void white();
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
