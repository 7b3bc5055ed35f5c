#pragma once
// Reads the plain data of a Python pickle: None, booleans, numbers, text, lists, tuples, sets and
// dicts. Nothing is ever executed or looked up: an opcode that would import or call something is
// an error that names it. Values that a pickle shares are kept once. Pure, any thread.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace paramedic::cluster {

constexpr size_t kPickleDepthMax = 64;          // of values within values
constexpr size_t kPickleValuesMax = 5'000'000;  // when they are read, shared ones at each place

// The values of a pickle by number. Text lies in the bytes that were read, which outlive it.
class PickleValues {
 public:
  enum class Kind : uint8_t { kNone, kFalse, kTrue, kInteger, kReal, kText, kList, kDict };
  struct Value {
    Kind kind = Kind::kNone;
    uint32_t count = 0;     // of text bytes; of items, keys and values in turn
    uint32_t capacity = 0;  // room for items
    union {
      int64_t integer = 0;
      double real;
      const char* text;
      size_t first;  // item, in `items_`
    };
  };

  [[nodiscard]] uint32_t root() const { return root_; }
  [[nodiscard]] const Value& at(uint32_t number) const { return values_[number]; }
  [[nodiscard]] std::string_view text(const Value& value) const {
    return {value.text, value.count};
  }
  [[nodiscard]] const uint32_t* items(const Value& value) const {
    return items_.data() + value.first;
  }
  // Of a scalar, as a key of a dict is written in JSON.
  [[nodiscard]] std::string key_text(const Value& value) const;
  // Whether both say the same; containers and text only when they are shared.
  [[nodiscard]] bool is_same(uint32_t first, uint32_t second) const;

 private:
  friend class PickleParser;
  std::vector<Value> values_;
  std::vector<uint32_t> items_;  // of all containers
  uint32_t root_ = 0;
};

// Whether `bytes` begin as a pickle of protocol 2 or newer does.
bool looks_like_pickle(Bytes bytes);

// Of numbers that no int64_t holds the low 64 bits are kept. kCorruption: cut, damaged or too
// large, with the offset; kUnsupported: it holds more than plain data.
Result<PickleValues> read_pickle(Bytes bytes);

// The value as JSON: tuples and sets become arrays; keys of a dict become text. kCorruption: deeper
// or larger than the limits.
Result<Json> to_json(const PickleValues& values);

}  // namespace paramedic::cluster
