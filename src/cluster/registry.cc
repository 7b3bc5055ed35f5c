// The table of watches, from watches/list.inc: one line there, one file beside it.

#include "cluster/cluster.h"
#include "cluster/watch.h"

namespace paramedic::cluster {

#define X(id) WatchEntry id##_watch();
#include "cluster/watches/list.inc"
#undef X

const std::vector<WatchEntry>& watch_entries() {
  static const std::vector<WatchEntry> kEntries = {
#define X(id) id##_watch(),
#include "cluster/watches/list.inc"
#undef X
  };
  return kEntries;
}

const std::vector<rules::RuleInfo>& all_rules() {
  static const std::vector<rules::RuleInfo> kAll = [] {
    std::vector<rules::RuleInfo> all = rules::builtin_rules();
    for (const WatchEntry& entry : watch_entries()) all.push_back(entry.info);
    return all;
  }();
  return kAll;
}

}  // namespace paramedic::cluster
