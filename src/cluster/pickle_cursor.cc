#include "cluster/pickle_cursor.h"

namespace paramedic::cluster {

using ValueKind = PickleValues::Kind;

JsonCursor::Kind PickleCursor::next() const {
  if (!error_.empty()) return Kind::kEnd;
  switch (values_.at(at_).kind) {
    case ValueKind::kNone:
      return Kind::kNull;
    case ValueKind::kFalse:
      return Kind::kFalse;
    case ValueKind::kTrue:
      return Kind::kTrue;
    case ValueKind::kInteger:
    case ValueKind::kReal:
      return Kind::kNumber;
    case ValueKind::kText:
      return Kind::kString;
    case ValueKind::kList:
      return Kind::kArray;
    case ValueKind::kDict:
      return Kind::kObject;
  }
  return Kind::kEnd;
}

bool PickleCursor::enter(ValueKind kind) {
  if (!error_.empty()) return false;
  const PickleValues::Value& value = values_.at(at_);
  read_ += value.count + size_t{1};
  if (value.kind != kind) {
    error_ = "another value is expected";
  } else if (depth_ >= kPickleDepthMax) {
    error_ = "values lie too deep";
  } else if (read_ > kPickleValuesMax) {
    error_ = "it unfolds to too many values";
  } else {
    ++depth_;
  }
  return error_.empty();
}

void PickleCursor::remember(Layout& layout) const {
  layout.items_.clear();
  const PickleValues::Value& value = values_.at(at_);
  if (value.kind != ValueKind::kDict || value.count > 2 * JsonLayout::kMembersMax) return;
  layout.items_.assign(values_.items(value), values_.items(value) + value.count);
}

std::string_view PickleCursor::key_of(uint32_t number) {
  const PickleValues::Value& value = values_.at(number);
  if (value.kind == ValueKind::kText) return values_.text(value);
  key_ = values_.key_text(value);
  return key_;
}

std::string_view PickleCursor::string() {
  const PickleValues::Value& value = values_.at(at_);
  if (value.kind == ValueKind::kText) return values_.text(value);
  error_ = "a text is expected";
  return {};
}

std::optional<int64_t> PickleCursor::integer() const {
  const PickleValues::Value& value = values_.at(at_);
  if (value.kind != ValueKind::kInteger) return std::nullopt;
  return value.integer;
}

}  // namespace paramedic::cluster
