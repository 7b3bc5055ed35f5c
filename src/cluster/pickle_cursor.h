#pragma once
// Walks the values of a pickle as JsonCursor reads JSON. What is shared is met at each place, with
// the same `identity`. One thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/json_cursor.h"
#include "cluster/pickle.h"

namespace paramedic::cluster {

class PickleCursor {
 public:
  using Kind = JsonCursor::Kind;
  static constexpr const char* kDamaged = "the pickle is damaged: ";

  // How the last one of many dicts looked that mostly look alike.
  class Layout {
   public:
    void forget() { items_.clear(); }

   private:
    friend class PickleCursor;
    std::vector<uint32_t> items_;  // keys and values in turn; empty: none is remembered
  };

  // `values` outlive the cursor.
  explicit PickleCursor(const PickleValues& values) : values_(values), at_(values.root()) {}

  // "" while all went well; what is read after an error is nothing.
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] Kind next() const;
  // Of the next value: the same for values that the pickle shares; never 0.
  [[nodiscard]] uint64_t identity() const { return uint64_t{at_} + 1; }

  // As JsonCursor's; a value that the function leaves is passed over.
  template <typename Member>
  void object(const Member& member) {
    walk(PickleValues::Kind::kDict, [&](const uint32_t* item) {
      at_ = item[1];
      member(key_of(item[0]));
    });
  }
  template <typename Member>
  void object(Layout& layout, const Member& member) {
    remember(layout);
    object(member);
  }
  template <typename Changed>
  bool object_like(Layout& layout, const Changed& changed) {
    const PickleValues::Value& value = values_.at(at_);
    std::vector<uint32_t>& before = layout.items_;
    if (before.empty() || value.kind != PickleValues::Kind::kDict || value.count != before.size()) {
      return false;
    }
    const uint32_t* now = values_.items(value);
    for (size_t i = 0; i < before.size(); i += 2) {
      if (before[i] != now[i]) return false;  // keys are shared
    }
    size_t number = 0;
    walk(PickleValues::Kind::kDict, [&](const uint32_t* item) {
      const bool is_same = values_.is_same(before[2 * number + 1], item[1]);
      before[2 * number + 1] = item[1];
      at_ = item[1];
      if (!is_same) changed(number);
      ++number;
    });
    return true;
  }
  template <typename Item>
  void array(const Item& item) {
    walk(PickleValues::Kind::kList, [&](const uint32_t* number) {
      at_ = *number;
      item();
    });
  }

  std::string_view string();
  [[nodiscard]] std::optional<int64_t> integer() const;
  void skip() {}
  [[nodiscard]] bool is_at_end() const { return true; }

 private:
  // Calls `item` with each item of a list, or each key of a dict, behind which its value stands.
  template <typename Item>
  void walk(PickleValues::Kind kind, const Item& item) {
    const uint32_t container = at_;
    if (!enter(kind)) return;
    const PickleValues::Value& value = values_.at(container);
    const uint32_t* items = values_.items(value);
    const uint32_t step = kind == PickleValues::Kind::kDict ? 2 : 1;
    for (uint32_t i = 0; i < value.count && error_.empty(); i += step) item(items + i);
    --depth_;
    at_ = container;
  }
  // False, and an error, when it is another kind, lies too deep, or too much has been read.
  bool enter(PickleValues::Kind kind);
  void remember(Layout& layout) const;
  // Valid until the next key.
  std::string_view key_of(uint32_t number);

  const PickleValues& values_;
  uint32_t at_;
  size_t depth_ = 0;
  size_t read_ = 0;  // values, shared ones each time
  std::string key_;
  std::string error_;
};

}  // namespace paramedic::cluster
