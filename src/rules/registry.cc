// The table of built-in rules, from builtin/list.inc: one line there, one file beside it.

#include "rules/rule.h"

namespace paramedic::rules {

#define X(id) RuleEntry id##_rule();
#include "rules/builtin/list.inc"
#undef X

const std::vector<RuleEntry>& rule_entries() {
  static const std::vector<RuleEntry> kEntries = {
#define X(id) id##_rule(),
#include "rules/builtin/list.inc"
#undef X
  };
  return kEntries;
}

const std::vector<RuleInfo>& builtin_rules() {
  static const std::vector<RuleInfo> kInfos = [] {
    std::vector<RuleInfo> infos;
    for (const RuleEntry& entry : rule_entries()) infos.push_back(entry.info);
    return infos;
  }();
  return kInfos;
}

}  // namespace paramedic::rules
