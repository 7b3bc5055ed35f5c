// The opcodes are those of Lib/pickle.py (protocols 0-5), as far as they make plain data.

#include "cluster/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <map>
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

// Values refer to each other by index, since a memo may hand out a list that is filled later.
struct Node {
  enum class Kind : uint8_t { kScalar, kList, kDict };
  Kind kind = Kind::kScalar;
  Json scalar;                  // of kScalar
  std::vector<uint32_t> items;  // of kList; of kDict keys and values in turn
};

class PickleParser {
 public:
  explicit PickleParser(Bytes bytes) : bytes_(bytes) {}

  Result<Json> parse() {
    while (true) {
      start_ = at_;
      PARAMEDIC_ASSIGN(const uint64_t opcode, number(1));
      if (opcode == kStop) break;
      PARAMEDIC_TRY(step(static_cast<uint8_t>(opcode)));
    }
    if (stack_.size() != 1 || !marks_.empty()) return damaged("ends with values left over");
    Json json;
    PARAMEDIC_TRY(convert(stack_.back(), 0, json));
    return json;
  }

 private:
  Status step(uint8_t opcode);
  Status step_memo(uint8_t opcode);
  Status step_text(uint8_t opcode);
  Status step_number(uint8_t opcode);
  Status step_container(uint8_t opcode);

  [[nodiscard]] Status damaged(const std::string& what) const {
    return corruption(fmt::format("the pickle {} at offset {}", what, start_));
  }

  // `count` bytes, little-endian.
  Result<uint64_t> number(size_t count) {
    PARAMEDIC_ASSIGN(const Bytes raw, take(count));
    uint64_t value = 0;
    std::memcpy(&value, raw.data(), raw.size());
    return value;
  }

  Result<Bytes> take(uint64_t count) {
    if (count > bytes_.size() - at_) return damaged("is cut");
    const Bytes taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }

  Status push(Node node) {
    if (nodes_.size() >= kPickleValuesMax) return damaged("holds too many values");
    nodes_.push_back(std::move(node));
    stack_.push_back(static_cast<uint32_t>(nodes_.size() - 1));
    return {};
  }
  Status push_scalar(Json scalar) { return push({Node::Kind::kScalar, std::move(scalar), {}}); }

  // Takes the values above the last mark off the stack.
  Result<std::vector<uint32_t>> pop_to_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) return damaged("misses a mark");
    std::vector<uint32_t> values(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()),
                                 stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  Result<std::vector<uint32_t>> pop(size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < floor + count) return damaged("takes a value that is not there");
    std::vector<uint32_t> values(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }

  // Adds to the list or dict on top of the stack.
  Status extend(Node::Kind kind, const std::vector<uint32_t>& values) {
    if (stack_.empty() || nodes_[stack_.back()].kind != kind) {
      return damaged("adds to what is no container");
    }
    if (kind == Node::Kind::kDict && values.size() % 2 != 0) return damaged("has a key alone");
    auto& items = nodes_[stack_.back()].items;
    items.insert(items.end(), values.begin(), values.end());
    return {};
  }

  Status remember(uint64_t place) {
    if (stack_.empty()) return damaged("remembers a value that is not there");
    memo_[place] = stack_.back();
    return {};
  }

  // Depth-first; a list that holds itself meets the depth, one that is shared without end the
  // count.
  Status convert(uint32_t index, size_t depth, Json& json);

  const Bytes bytes_;
  size_t at_ = 0;
  size_t start_ = 0;  // of the opcode
  std::vector<Node> nodes_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::map<uint64_t, uint32_t> memo_;
  size_t converted_ = 0;
};

Status PickleParser::convert(uint32_t index, size_t depth, Json& json) {
  if (depth > kPickleDepthMax) return damaged("is nested too deeply");
  if (++converted_ > kPickleValuesMax) return damaged("holds too many values");
  const Node& node = nodes_[index];
  if (node.kind == Node::Kind::kScalar) {
    json = node.scalar;
    return {};
  }
  if (node.kind == Node::Kind::kList) {
    json = Json::array();
    for (const uint32_t item : node.items) {
      json.emplace_back();
      PARAMEDIC_TRY(convert(item, depth + 1, json.back()));
    }
    return {};
  }
  json = Json::object();
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const Node& key = nodes_[node.items[i]];
    if (key.kind != Node::Kind::kScalar) return damaged("has a key that is a container");
    const std::string text =
        key.scalar.is_string() ? key.scalar.get<std::string>() : to_text(key.scalar);
    PARAMEDIC_TRY(convert(node.items[i + 1], depth + 1, json[text]));
  }
  return {};
}

Status PickleParser::step(uint8_t opcode) {
  switch (opcode) {
    case kProto: {
      PARAMEDIC_ASSIGN(const uint64_t version, number(1));
      if (version <= 5) return {};
      return unsupported(fmt::format("the pickle is of protocol {}", version));
    }
    case kFrame:
      return number(8).status();
    case kMark:
      marks_.push_back(stack_.size());
      return {};
    case kPop:
      return pop(1).status();
    case kPopMark:
      return pop_to_mark().status();
    case kDup:
      if (stack_.empty()) return damaged("takes a value that is not there");
      stack_.push_back(stack_.back());
      return {};
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
      return push_scalar(nullptr);
    case kNewTrue:
      return push_scalar(true);
    case kNewFalse:
      return push_scalar(false);
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

Status PickleParser::step_memo(uint8_t opcode) {
  if (opcode == kMemoize) return remember(memo_.size());
  const bool is_long = opcode == kLongBinPut || opcode == kLongBinGet;
  PARAMEDIC_ASSIGN(const uint64_t place, number(is_long ? 4 : 1));
  if (opcode == kBinPut || opcode == kLongBinPut) return remember(place);
  const auto known = memo_.find(place);
  if (known == memo_.end()) return damaged("refers to a value that it has not told");
  stack_.push_back(known->second);
  return {};
}

Status PickleParser::step_text(uint8_t opcode) {
  const bool is_short =
      opcode == kShortBinUnicode || opcode == kShortBinString || opcode == kShortBinBytes;
  const bool is_long = opcode == kBinUnicode8 || opcode == kBinBytes8;
  PARAMEDIC_ASSIGN(const uint64_t bytes, number(is_short ? 1 : is_long ? 8 : 4));
  PARAMEDIC_ASSIGN(const Bytes raw, take(bytes));
  return push_scalar(valid_utf8({reinterpret_cast<const char*>(raw.data()), raw.size()}));
}

Status PickleParser::step_number(uint8_t opcode) {
  switch (opcode) {
    case kBinInt1:
    case kBinInt2: {
      PARAMEDIC_ASSIGN(const uint64_t value, number(opcode == kBinInt1 ? 1 : 2));
      return push_scalar(static_cast<int64_t>(value));
    }
    case kBinInt: {
      PARAMEDIC_ASSIGN(const uint64_t value, number(4));
      return push_scalar(static_cast<int64_t>(static_cast<int32_t>(value)));
    }
    case kBinFloat: {
      PARAMEDIC_ASSIGN(const uint64_t bits, number(8));
      return push_scalar(std::bit_cast<double>(__builtin_bswap64(bits)));
    }
    default: {
      PARAMEDIC_ASSIGN(const uint64_t bytes, number(opcode == kLong1 ? 1 : 4));
      PARAMEDIC_ASSIGN(const Bytes raw, take(bytes));
      if (raw.empty()) return push_scalar(0);
      // Two's complement of any length.
      uint64_t value = (raw.back() >> 7) == std::byte{1} ? UINT64_MAX : 0;
      std::memcpy(&value, raw.data(), std::min<size_t>(raw.size(), 8));
      return push_scalar(static_cast<int64_t>(value));
    }
  }
}

Status PickleParser::step_container(uint8_t opcode) {
  switch (opcode) {
    case kEmptyList:
    case kEmptyTuple:
    case kEmptySet:
      return push({Node::Kind::kList, nullptr, {}});
    case kEmptyDict:
      return push({Node::Kind::kDict, nullptr, {}});
    case kList:
    case kTuple:
    case kFrozenSet: {
      PARAMEDIC_ASSIGN(auto values, pop_to_mark());
      return push({Node::Kind::kList, nullptr, std::move(values)});
    }
    case kTuple1:
    case kTuple2:
    case kTuple3: {
      PARAMEDIC_ASSIGN(auto values, pop(opcode - kTuple1 + 1));
      return push({Node::Kind::kList, nullptr, std::move(values)});
    }
    case kDict: {
      PARAMEDIC_ASSIGN(auto values, pop_to_mark());
      PARAMEDIC_TRY(push({Node::Kind::kDict, nullptr, {}}));
      return extend(Node::Kind::kDict, values);
    }
    case kAppend: {
      PARAMEDIC_ASSIGN(const auto values, pop(1));
      return extend(Node::Kind::kList, values);
    }
    case kAppends:
    case kAddItems: {
      PARAMEDIC_ASSIGN(const auto values, pop_to_mark());
      return extend(Node::Kind::kList, values);
    }
    case kSetItem: {
      PARAMEDIC_ASSIGN(const auto values, pop(2));
      return extend(Node::Kind::kDict, values);
    }
    case kSetItems: {
      PARAMEDIC_ASSIGN(const auto values, pop_to_mark());
      return extend(Node::Kind::kDict, values);
    }
    default:
      return unsupported(
          fmt::format("the pickle is more than plain data: opcode 0x{:02x} at offset {} {}", opcode,
                      start_, name_of_refused(opcode)),
          "Paramedic never executes a pickle; have the job write its dump as JSON");
  }
}

}  // namespace

bool looks_like_pickle(Bytes bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{kProto} && bytes[1] >= std::byte{2} &&
         bytes[1] <= std::byte{5};
}

Result<Json> parse_pickle(Bytes bytes) { return PickleParser(bytes).parse(); }

}  // namespace paramedic::cluster
