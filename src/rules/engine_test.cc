#include "rules/engine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "rules/golden_case.h"

namespace paramedic::rules {
namespace {

// A deep sigmoid network whose gradient vanishes, from `from` to `to`.
std::string vanishing(int from, int to) {
  return fmt::format(
      "event fit_started\n"
      "module 0 Linear train.py:19 order=0\n"
      "module 2 Linear train.py:20 order=2\n"
      "module 4 Linear train.py:21 order=4\n"
      "parameter 0.weight 64x64\nparameter 2.weight 64x64\nparameter 4.weight 10x64\n"
      "loss CrossEntropyLoss train.py:35\n"
      "repeat {} {}\n"
      "scalar loss/train.py:35 2.303 noise=0.01\n"
      "stats 0.weight gradient mean_abs=1e-11 every=10\n"
      "stats 2.weight gradient mean_abs=1e-9 every=10\n"
      "stats 4.weight gradient mean_abs=1e-2 every=10\n"
      "end\n",
      from, to);
}

// Rows as they came, to be delivered in another order.
class Recorder : public store::RowSink {
 public:
  void on_stats(const store::StatsRow& row) override {
    add(row.origin, [row](store::RowSink& sink) { sink.on_stats(row); });
  }
  void on_scalar(const store::ScalarRow& row) override {
    add(row.origin, [row](store::RowSink& sink) { sink.on_scalar(row); });
  }
  void on_event(const store::EventRow& row) override {
    add(row.origin, [row](store::RowSink& sink) { sink.on_event(row); });
  }
  void on_model(const store::ModelRow& row) override {
    add(row.origin, [row](store::RowSink& sink) { sink.on_model(row); });
  }

  std::map<uint64_t, std::vector<std::function<void(store::RowSink&)>>> rings;

 private:
  void add(const store::Origin& origin, std::function<void(store::RowSink&)> row) {
    rings[origin.ring_id].push_back(std::move(row));
  }
};

TEST(engine, merges_steps_and_layers_into_one_finding) {
  CollectingSink sink;
  const auto engine = Engine::create(sink);
  CasePlayer player;
  ASSERT_TRUE(player.play(vanishing(0, 80), *engine).ok());
  engine->finish();
  ASSERT_EQ(sink.findings().size(), 1U);
  const Finding& finding = sink.findings()[0].second;
  EXPECT_EQ(finding.id, "vanishing_gradient");
  EXPECT_EQ(finding.step, 0);
  EXPECT_EQ(finding.last_step, 80);
  EXPECT_EQ(finding.tensors, (std::vector<std::string>{"0.weight", "2.weight"}));
  EXPECT_FALSE(finding.fix.empty());
}

TEST(engine, updates_a_long_problem_seldom) {
  CollectingSink sink;
  const auto engine = Engine::create(sink);
  CasePlayer player;
  ASSERT_TRUE(player.play(vanishing(0, 5000), *engine).ok());
  engine->finish();
  EXPECT_EQ(sink.findings()[0].second.last_step, 5000);
  // Two problems (the loss stands still too) over thousands of sightings.
  EXPECT_LT(sink.updates(), 60U);
}

TEST(engine, forgets_at_a_new_fit_but_keeps_its_findings) {
  // GIVEN a fit whose gradient vanishes, followed by one that is fine
  const std::string text = vanishing(0, 80) +
                           "event fit_started\n"
                           "repeat 81 160\n"
                           "scalar loss/train.py:35 2.3->0.1 noise=0.01\n"
                           "stats 0.weight gradient mean_abs=1e-3 every=10\n"
                           "stats 2.weight gradient mean_abs=1e-3 every=10\n"
                           "stats 4.weight gradient mean_abs=1e-2 every=10\n"
                           "end\n";
  CollectingSink sink;
  const auto engine = Engine::create(sink);
  CasePlayer player;
  // WHEN both have run
  ASSERT_TRUE(player.play(text, *engine).ok());
  engine->finish();
  // THEN the first one's finding stands as it ended
  ASSERT_EQ(sink.findings().size(), 1U);
  EXPECT_EQ(sink.findings()[0].second.last_step, 80);
  EXPECT_NE(sink.findings()[0].first.find("fit-0"), std::string::npos);
}

TEST(engine, a_second_fit_has_findings_of_its_own) {
  CollectingSink sink;
  const auto engine = Engine::create(sink);
  CasePlayer player;
  ASSERT_TRUE(player.play(vanishing(0, 80) + vanishing(81, 160), *engine).ok());
  engine->finish();
  ASSERT_EQ(sink.findings().size(), 2U);
  EXPECT_NE(sink.findings()[0].first, sink.findings()[1].first);
}

TEST(engine, answers_the_same_however_two_processes_interleave) {
  // GIVEN the rows of two processes, one after the other
  Recorder recorder;
  CasePlayer player;
  ASSERT_TRUE(
      player
          .play("process 1 rank=0\n" + vanishing(0, 300) + "process 2 rank=1\n" + vanishing(0, 240),
                recorder)
          .ok());
  ASSERT_EQ(recorder.rings.size(), 2U);
  const auto& first = recorder.rings[1];
  const auto& second = recorder.rings[2];
  std::set<std::string> answers;
  // WHEN they are delivered in turns of different lengths
  for (const size_t turn : {size_t{1}, size_t{7}, size_t{100'000}}) {
    CollectingSink sink;
    const auto engine = Engine::create(sink);
    size_t i = 0;
    size_t j = 0;
    while (i < first.size() || j < second.size()) {
      for (size_t k = 0; k < turn && i < first.size(); ++k) first[i++](*engine);
      for (size_t k = 0; k < turn && j < second.size(); ++k) second[j++](*engine);
    }
    engine->finish();
    std::map<std::string, std::string> by_key;
    for (const auto& [key, finding] : sink.findings()) by_key[key] = to_text(finding.to_json());
    std::string answer;
    for (const auto& [key, json] : by_key) answer += key + " " + json + "\n";
    answers.insert(answer);
    EXPECT_EQ(by_key.size(), 4U);
  }
  // THEN nothing differs
  EXPECT_EQ(answers.size(), 1U);
}

TEST(engine, bounds_the_tensors_of_a_finding) {
  std::string text = "event fit_started\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("module m{} Linear t.py:1 order={}\n", i, i);
  text += "repeat 0 50 every=10\n";
  for (int i = 0; i < 299; ++i)
    text += fmt::format("stats m{}.weight gradient mean_abs=1e-12\n", i);
  text += "stats m299.weight gradient mean_abs=1e-2\nend\n";
  CollectingSink sink;
  const auto engine = Engine::create(sink);
  CasePlayer player;
  ASSERT_TRUE(player.play(text, *engine).ok());
  engine->finish();
  ASSERT_EQ(sink.findings().size(), 1U);
  EXPECT_LE(sink.findings()[0].second.tensors.size(), 64U);
}

TEST(engine, ignores_events_that_are_damaged) {
  CollectingSink sink;
  const auto engine = Engine::create(sink);
  CasePlayer player;
  for (const char* json : {"{", "[]", "{\"where\": 3, \"steps\": \"x\"}", "{\"evidence\": [1]}"}) {
    const std::string text = fmt::format(
        "step 1\nevent gradient_not_zeroed {0}\nevent nan_origin {0}\nevent fit_started {0}\n",
        json);
    ASSERT_TRUE(player.play(text, *engine).ok());
  }
  engine->finish();
  EXPECT_TRUE(sink.findings().empty());
}

TEST(registry, metadata_is_complete_and_ids_are_unique) {
  std::set<std::string> ids;
  for (const RuleInfo& rule : builtin_rules()) {
    EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
    EXPECT_GT(std::string(rule.title).size(), 5U) << rule.id;
    EXPECT_GT(std::string(rule.what).size(), 20U) << rule.id;
    EXPECT_GT(std::string(rule.fix).size(), 10U) << rule.id;
    for (const ParameterInfo& parameter : rule.parameters) {
      EXPECT_LE(parameter.min, parameter.default_value) << rule.id << " " << parameter.name;
      EXPECT_GE(parameter.max, parameter.default_value) << rule.id << " " << parameter.name;
    }
  }
}

}  // namespace
}  // namespace paramedic::rules
