#include "rules/finding.h"

#include <gtest/gtest.h>

#include <limits>

namespace paramedic::rules {
namespace {

Finding full() {
  Finding finding;
  finding.id = "vanishing_gradient";
  finding.severity = Severity::kError;
  finding.time = 1796000000.25;
  finding.step = 40;
  finding.last_step = 95;
  finding.rank = 0;
  finding.tensor = "net.0.weight";
  finding.kind = "gradient";
  finding.value = 3.1e-9;
  finding.threshold = 1e-7;
  finding.where = Where{"train.py", 31, "forward"};
  finding.confidence = 0.97;
  finding.message = "the mean absolute gradient …";
  finding.evidence = {"a", "b"};
  finding.fix = "use ReLU";
  finding.tensors = {"net.0.weight"};
  return finding;
}

TEST(finding, survives_a_round_trip_through_json) {
  const Json json = full().to_json();
  const Result<Finding> back = Finding::from_json(json);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(to_text(back->to_json()), to_text(json));
}

TEST(finding, states_unknown_values_as_null) {
  Finding finding;
  finding.id = "loss_spike";
  finding.value = std::numeric_limits<double>::quiet_NaN();
  const Json json = finding.to_json();
  for (const char* key :
       {"step", "last_step", "rank", "tensor", "kind", "value", "threshold", "where"}) {
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json[key].is_null()) << key;
  }
}

TEST(finding, refuses_what_is_no_finding) {
  for (const char* text : {"[]", "{}", R"({"id": "x"})", R"({"id": "x", "severity": "bad"})"}) {
    const Result<Json> json = parse_json(text, "test");
    ASSERT_TRUE(json.ok());
    EXPECT_FALSE(Finding::from_json(*json).ok()) << text;
  }
}

}  // namespace
}  // namespace paramedic::rules
