#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "probe/probe.h"

namespace paramedic::probe {
namespace {

std::vector<std::string> followed;  // by the plain function that C asks for

int32_t follow(const char* event, void* arguments) {
  followed.push_back(std::string(event) + (arguments == nullptr ? "" : "+"));
  return 7;
}

TEST(AuditFilter, only_watched_events_are_handed_on_while_it_is_on) {
  const char* const events[] = {"open", "os.remove"};
  paramedic_audit_watch watch{follow, events, 2, 1};
  int arguments = 0;
  EXPECT_EQ(paramedic_audit("id", &arguments, &watch), 0);
  EXPECT_EQ(paramedic_audit("os.removexattr", &arguments, &watch), 0);
  EXPECT_EQ(paramedic_audit("open", &arguments, &watch), 7);
  EXPECT_EQ(paramedic_audit("os.remove", nullptr, &watch), 7);
  watch.on = 0;
  EXPECT_EQ(paramedic_audit("open", &arguments, &watch), 0);
  EXPECT_EQ(followed, (std::vector<std::string>{"open+", "os.remove"}));
}

TEST(AuditFilter, nothing_to_watch_is_no_fault) {
  EXPECT_EQ(paramedic_audit("open", nullptr, nullptr), 0);
}

}  // namespace
}  // namespace paramedic::probe
