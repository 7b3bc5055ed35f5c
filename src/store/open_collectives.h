#pragma once
// Collectives that were entered and not yet left, on their way into the store: one that is left
// soon is stored once, one that stays inside is stored as it stands, so that it survives the agent.
// Not thread-safe.

#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "store/rows.h"
#include "store/tables.h"

namespace paramedic::store {

class OpenCollectives {
 public:
  // Whether `row`, a call that was just entered, could be kept.
  bool enter(const CollectiveRow& row);
  void leave(const CollectiveRow& row);
  // Gives out, once each, the calls that were entered before `before_ns`. Their pointers are valid
  // as long as this object.
  void take(int64_t before_ns, const std::function<void(const CollectiveRow&)>& store);

 private:
  struct Call {
    CollectiveRow row;
    bool stored = false;
  };
  using Key = std::tuple<uint64_t, std::string, int64_t>;  // ring, group, call

  // Its own names: rows may outlive the importer that they came from.
  std::map<uint64_t, Interner> interners_;
  std::map<Key, Call> calls_;
};

}  // namespace paramedic::store
