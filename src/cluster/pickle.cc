// The opcodes are those of Lib/pickle.py (protocols 0-5), as far as they make plain data.

#include "cluster/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace paramedic::cluster {
namespace {

enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyList = ']',
  kList = 'l',
  kEmptyDict = '}',
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kTuple = 't',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// What an opcode outside plain data would have done, for the message.
const char* name_of_refused(uint8_t opcode) {
  switch (opcode) {
    case 'c':
    case 0x93:
      return "imports a name";
    case 'R':
    case 'o':
    case 'i':
    case 0x81:
    case 0x92:
      return "calls an object";
    case 'b':
      return "sets the state of an object";
    case 'P':
    case 'Q':
      return "refers to something outside the file";
    case 0x82:
    case 0x83:
    case 0x84:
      return "uses the extension registry";
    default:
      return "is not one of plain data";
  }
}

// Of all containers, with the room that is left in them.
constexpr size_t kItemsMax = 8 * kPickleValuesMax;

}  // namespace

// Reads opcodes one after another; the first that cannot be ends it, and says why in `status_`.
class PickleParser {
 public:
  explicit PickleParser(Bytes bytes) : bytes_(bytes) {}

  Result<PickleValues> parse() {
    while (true) {
      start_ = at_;
      const std::byte* opcode = take(1);
      if (opcode == nullptr) return status_;
      if (*opcode == std::byte{kStop}) break;
      if (!step(static_cast<uint8_t>(*opcode))) return status_;
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      damaged("ends with values left over");
      return status_;
    }
    made_.root_ = stack_.back();
    return std::move(made_);
  }

 private:
  using Kind = PickleValues::Kind;
  using Value = PickleValues::Value;

  bool step(uint8_t opcode);
  bool step_memo(uint8_t opcode);
  bool step_text(uint8_t opcode);
  bool step_number(uint8_t opcode);
  bool step_container(uint8_t opcode);

  bool damaged(const char* what) {
    status_ = corruption(fmt::format("the pickle {} at offset {}", what, start_));
    return false;
  }

  // Null, and an error, when there are fewer.
  const std::byte* take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      damaged("is cut");
      return nullptr;
    }
    const std::byte* taken = bytes_.data() + at_;
    at_ += count;
    return taken;
  }
  // `count` bytes, little-endian.
  bool number(size_t count, uint64_t& value) {
    value = 0;
    const std::byte* raw = take(count);
    if (raw != nullptr) std::memcpy(&value, raw, count);
    return raw != nullptr;
  }

  bool push(const Value& value) {
    if (made_.values_.size() >= kPickleValuesMax) return damaged("holds too many values");
    stack_.push_back(static_cast<uint32_t>(made_.values_.size()));
    made_.values_.push_back(value);
    return true;
  }
  bool push(Kind kind) {
    Value value;
    value.kind = kind;
    return push(value);
  }
  bool push_integer(int64_t integer) {
    Value value;
    value.kind = Kind::kInteger;
    value.integer = integer;
    return push(value);
  }

  // How many values lie above the last mark, which is taken away.
  bool pop_mark(size_t& count) {
    if (marks_.empty() || marks_.back() > stack_.size()) return damaged("misses a mark");
    count = stack_.size() - marks_.back();
    marks_.pop_back();
    return true;
  }
  bool has(size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    return stack_.size() >= floor + count || damaged("takes a value that is not there");
  }
  // A container of the uppermost `count` values, in their place.
  bool gather(Kind kind, size_t count) {
    const size_t first = stack_.size() - count;
    if (!push(kind) || !extend(kind, stack_.back(), first, count)) return false;
    stack_[first] = stack_.back();
    stack_.resize(first + 1);
    return true;
  }
  // Adds the uppermost `count` values to the container below them.
  bool extend_below(Kind kind, size_t count) {
    const size_t first = stack_.size() - count;
    if (first == 0) return damaged("adds to what is no container");
    if (!extend(kind, stack_[first - 1], first, count)) return false;
    stack_.resize(first);
    return true;
  }
  // Adds `count` values of the stack, from `first` on.
  bool extend(Kind kind, uint32_t container, size_t first, size_t count);

  bool remember(uint64_t place) {
    if (stack_.empty()) return damaged("remembers a value that is not there");
    if (place >= kPickleValuesMax) return damaged("remembers too many values");
    if (place >= memo_.size()) memo_.resize(place + 1, kNothing);
    if (memo_[place] == kNothing) ++remembered_;
    memo_[place] = stack_.back();
    return true;
  }

  static constexpr uint32_t kNothing = UINT32_MAX;

  const Bytes bytes_;
  size_t at_ = 0;
  size_t start_ = 0;  // of the opcode
  PickleValues made_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<uint32_t> memo_;
  uint64_t remembered_ = 0;
  Status status_;
};

// Items of a container lie in one piece. One that grows is moved to the end, with twice the room.
bool PickleParser::extend(Kind kind, uint32_t container, size_t first, size_t count) {
  Value& into = made_.values_[container];
  if (into.kind != kind) return damaged("adds to what is no container");
  if (kind == Kind::kDict && count % 2 != 0) return damaged("has a key alone");
  std::vector<uint32_t>& items = made_.items_;
  const size_t needed = into.count + count;
  if (needed > into.capacity) {
    const size_t room = into.count == 0 ? count : 2 * needed;
    if (items.size() + room > kItemsMax) return damaged("holds too many values");
    const size_t moved_to = items.size();
    items.resize(moved_to + room);
    std::copy_n(items.data() + into.first, into.count, items.data() + moved_to);
    into.first = moved_to;
    into.capacity = static_cast<uint32_t>(room);
  }
  std::copy_n(stack_.data() + first, count, items.data() + into.first + into.count);
  into.count = static_cast<uint32_t>(needed);
  return true;
}

bool PickleParser::step(uint8_t opcode) {
  uint64_t value = 0;
  size_t count = 0;
  switch (opcode) {
    case kProto:
      if (!number(1, value)) return false;
      if (value <= 5) return true;
      status_ = unsupported(fmt::format("the pickle is of protocol {}", value));
      return false;
    case kFrame:
      return number(8, value);
    case kMark:
      marks_.push_back(stack_.size());
      return true;
    case kPop:
      if (!has(1)) return false;
      stack_.pop_back();
      return true;
    case kPopMark:
      if (!pop_mark(count)) return false;
      stack_.resize(stack_.size() - count);
      return true;
    case kDup:
      if (stack_.empty()) return damaged("takes a value that is not there");
      stack_.push_back(stack_.back());
      return true;
    case kBinPut:
    case kLongBinPut:
    case kMemoize:
    case kBinGet:
    case kLongBinGet:
      return step_memo(opcode);
    case kBinUnicode:
    case kShortBinUnicode:
    case kBinUnicode8:
    case kBinString:
    case kShortBinString:
    case kBinBytes:
    case kShortBinBytes:
    case kBinBytes8:
      return step_text(opcode);
    case kNone:
      return push(Kind::kNone);
    case kNewTrue:
      return push(Kind::kTrue);
    case kNewFalse:
      return push(Kind::kFalse);
    case kBinInt:
    case kBinInt1:
    case kBinInt2:
    case kLong1:
    case kLong4:
    case kBinFloat:
      return step_number(opcode);
    default:
      return step_container(opcode);
  }
}

bool PickleParser::step_memo(uint8_t opcode) {
  if (opcode == kMemoize) return remember(remembered_);
  const bool is_long = opcode == kLongBinPut || opcode == kLongBinGet;
  uint64_t place = 0;
  if (!number(is_long ? 4 : 1, place)) return false;
  if (opcode == kBinPut || opcode == kLongBinPut) return remember(place);
  if (place >= memo_.size() || memo_[place] == kNothing) {
    return damaged("refers to a value that it has not told");
  }
  stack_.push_back(memo_[place]);
  return true;
}

bool PickleParser::step_text(uint8_t opcode) {
  const bool is_short =
      opcode == kShortBinUnicode || opcode == kShortBinString || opcode == kShortBinBytes;
  const bool is_long = opcode == kBinUnicode8 || opcode == kBinBytes8;
  uint64_t bytes = 0;
  if (!number(is_short ? 1 : is_long ? 8 : 4, bytes)) return false;
  const std::byte* raw = take(bytes);
  if (raw == nullptr) return false;
  if (bytes > UINT32_MAX) return damaged("holds a text that is too long");
  Value value;
  value.kind = Kind::kText;
  value.count = static_cast<uint32_t>(bytes);
  value.text = reinterpret_cast<const char*>(raw);
  return push(value);
}

bool PickleParser::step_number(uint8_t opcode) {
  uint64_t read = 0;
  switch (opcode) {
    case kBinInt1:
    case kBinInt2:
      return number(opcode == kBinInt1 ? 1 : 2, read) && push_integer(static_cast<int64_t>(read));
    case kBinInt:
      return number(4, read) && push_integer(static_cast<int32_t>(read));
    case kBinFloat: {
      if (!number(8, read)) return false;
      Value value;
      value.kind = Kind::kReal;
      value.real = std::bit_cast<double>(__builtin_bswap64(read));
      return push(value);
    }
    default: {
      uint64_t bytes = 0;
      if (!number(opcode == kLong1 ? 1 : 4, bytes)) return false;
      const std::byte* raw = take(bytes);
      if (raw == nullptr) return false;
      if (bytes == 0) return push_integer(0);
      // Two's complement of any length.
      uint64_t value = (raw[bytes - 1] >> 7) == std::byte{1} ? UINT64_MAX : 0;
      std::memcpy(&value, raw, std::min<size_t>(bytes, 8));
      return push_integer(static_cast<int64_t>(value));
    }
  }
}

bool PickleParser::step_container(uint8_t opcode) {
  size_t count = 0;
  switch (opcode) {
    case kEmptyList:
    case kEmptyTuple:
    case kEmptySet:
      return push(Kind::kList);
    case kEmptyDict:
      return push(Kind::kDict);
    case kList:
    case kTuple:
    case kFrozenSet:
      return pop_mark(count) && gather(Kind::kList, count);
    case kTuple1:
    case kTuple2:
    case kTuple3:
      count = static_cast<size_t>(opcode - kTuple1) + 1;
      return has(count) && gather(Kind::kList, count);
    case kDict:
      return pop_mark(count) && gather(Kind::kDict, count);
    case kAppend:
      return has(1) && extend_below(Kind::kList, 1);
    case kAppends:
    case kAddItems:
      return pop_mark(count) && extend_below(Kind::kList, count);
    case kSetItem:
      return has(2) && extend_below(Kind::kDict, 2);
    case kSetItems:
      return pop_mark(count) && extend_below(Kind::kDict, count);
    default:
      status_ = unsupported(
          fmt::format("the pickle is more than plain data: opcode 0x{:02x} at offset {} {}", opcode,
                      start_, name_of_refused(opcode)),
          "Paramedic never executes a pickle; have the job write its dump as JSON");
      return false;
  }
}

namespace {

// Depth-first; a list that holds itself meets the depth, one that is shared without end the count.
class Converter {
 public:
  explicit Converter(const PickleValues& values) : values_(values) {}

  Status convert(uint32_t number, size_t depth, Json& json);

 private:
  using Kind = PickleValues::Kind;

  const PickleValues& values_;
  size_t converted_ = 0;
};

Status Converter::convert(uint32_t number, size_t depth, Json& json) {
  if (depth > kPickleDepthMax) return corruption("the pickle is nested too deeply");
  if (++converted_ > kPickleValuesMax) return corruption("the pickle holds too many values");
  const PickleValues::Value& value = values_.at(number);
  const uint32_t* items =
      value.kind == Kind::kList || value.kind == Kind::kDict ? values_.items(value) : nullptr;
  switch (value.kind) {
    case Kind::kNone:
      json = nullptr;
      return {};
    case Kind::kFalse:
    case Kind::kTrue:
      json = value.kind == Kind::kTrue;
      return {};
    case Kind::kInteger:
      json = value.integer;
      return {};
    case Kind::kReal:
      json = value.real;
      return {};
    case Kind::kText:
      json = valid_utf8(values_.text(value));
      return {};
    case Kind::kList:
      json = Json::array();
      for (uint32_t i = 0; i < value.count; ++i) {
        json.emplace_back();
        PARAMEDIC_TRY(convert(items[i], depth + 1, json.back()));
      }
      return {};
    case Kind::kDict:
      json = Json::object();
      for (uint32_t i = 0; i + 1 < value.count; i += 2) {
        Json& member = json[valid_utf8(values_.key_text(values_.at(items[i])))];
        PARAMEDIC_TRY(convert(items[i + 1], depth + 1, member));
      }
      return {};
  }
  return {};
}

}  // namespace

std::string PickleValues::key_text(const Value& value) const {
  switch (value.kind) {
    case Kind::kNone:
      return "null";
    case Kind::kFalse:
      return "false";
    case Kind::kTrue:
      return "true";
    case Kind::kInteger:
      return std::to_string(value.integer);
    case Kind::kReal:
      return fmt::format("{}", value.real);
    case Kind::kText:
      return std::string(text(value));
    case Kind::kList:
    case Kind::kDict:
      return "";  // Python has no such keys
  }
  return "";
}

bool PickleValues::is_same(uint32_t first, uint32_t second) const {
  if (first == second) return true;
  const Value &one = values_[first], &other = values_[second];
  if (one.kind != other.kind) return false;
  switch (one.kind) {
    case Kind::kNone:
    case Kind::kFalse:
    case Kind::kTrue:
      return true;
    case Kind::kInteger:
      return one.integer == other.integer;
    default:
      return false;
  }
}

bool looks_like_pickle(Bytes bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{kProto} && bytes[1] >= std::byte{2} &&
         bytes[1] <= std::byte{5};
}

Result<PickleValues> read_pickle(Bytes bytes) { return PickleParser(bytes).parse(); }

Result<Json> to_json(const PickleValues& values) {
  Json json;
  PARAMEDIC_TRY(Converter(values).convert(values.root(), 0, json));
  return json;
}

}  // namespace paramedic::cluster
