#include "store/open_collectives.h"

namespace paramedic::store {
namespace {

// A job that never waits for its asynchronous calls leaves all of them open.
constexpr size_t kOpenMax = 256 << 10;

}  // namespace

bool OpenCollectives::enter(const CollectiveRow& row) {
  if (calls_.size() >= kOpenMax) return false;
  Interner& interner = interners_[row.origin.ring_id];
  Call& call = calls_[{row.origin.ring_id, row.group->name, row.sequence}];
  call.row = row;
  call.row.group = interner.group(row.group->name, row.group->description, row.group->backend);
  if (row.where != nullptr) {
    call.row.where = interner.call_site(row.where->file, row.where->line, row.where->function);
  }
  call.stored = false;
  return true;
}

void OpenCollectives::leave(const CollectiveRow& row) {
  calls_.erase({row.origin.ring_id, row.group->name, row.sequence});
}

void OpenCollectives::take(int64_t before_ns,
                           const std::function<void(const CollectiveRow&)>& store) {
  for (auto& [key, call] : calls_) {
    if (call.stored || call.row.entered_ns >= before_ns) continue;
    call.stored = true;
    store(call.row);
  }
}

}  // namespace paramedic::store
