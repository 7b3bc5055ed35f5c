// The verdicts of a cluster over many simulated jobs whose truth is known. SIM_SEEDS=1000 plays as
// many as the documents tell of; without it a few, since every build with sanitizers runs this.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "simulator.h"

namespace paramedic::sim {
namespace {

constexpr uint64_t kSeeds = 60;
constexpr int32_t kRanksMax = 64;

uint64_t seeds() {
  const char* told = std::getenv("SIM_SEEDS");
  return told == nullptr ? kSeeds : std::strtoull(told, nullptr, 10);
}

struct Tally {
  int plays = 0;
  int found = 0;  // faulty ones with the right finding
  int missed = 0;
  int wrong = 0;         // findings that accuse a rank that did nothing, or a healthy job
  double slowest_s = 0;  // from the fault to its finding
};

std::string text_of(const rules::Finding& finding) {
  return fmt::format("{} rank {} at {:.1f} s: {}", finding.id, finding.rank.value_or(-1),
                     finding.time, finding.message);
}

// Adds one play to its tally and answers what was not as it should be.
std::string judge(const Scenario& scenario, const Play& play, Tally& tally) {
  ++tally.plays;
  bool found = false;
  std::string wrong;
  for (const rules::Finding& finding : play.findings) {
    const bool is_of_guilty =
        play.truth.is_faulty && (!finding.rank || *finding.rank == scenario.guilty);
    const bool names_enough = !play.truth.rank || finding.rank == play.truth.rank;
    if (!is_of_guilty) {
      ++tally.wrong;
      wrong += "  wrong: " + text_of(finding) + "\n";
    } else if (play.truth.ids.contains(finding.id) && names_enough) {
      if (!found) tally.slowest_s = std::max(tally.slowest_s, finding.time - play.truth.began_s);
      found = true;
    }
  }
  if (!play.truth.is_faulty) return wrong;
  ++(found ? tally.found : tally.missed);
  if (found) return wrong;
  std::string missed = "  missed\n";
  for (const rules::Finding& finding : play.findings)
    missed += "  told: " + text_of(finding) + "\n";
  return wrong + missed;
}

TEST(sim,
     the_right_rank_is_named_in_at_least_95_of_100_simulated_jobs_and_few_are_accused_wrongly) {
  std::map<std::string, Tally> tallies;
  std::string troubles;
  Tally all;
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const Scenario scenario = draw_scenario(seed, kRanksMax);
    const Play result = play(scenario);
    Tally& tally = tallies[fault_name(scenario.fault)];
    const std::string trouble = judge(scenario, result, tally);
    if (trouble.empty()) continue;
    troubles += fmt::format("seed {}: {} of rank {} in step {} of dp {} tp {} pp {}\n{}", seed,
                            fault_name(scenario.fault), scenario.guilty, scenario.fault_step,
                            scenario.data_parallel, scenario.tensor_parallel,
                            scenario.pipeline_parallel, trouble);
  }
  std::string table = "fault        plays found missed wrong slowest\n";
  for (const auto& [fault, tally] : tallies) {
    table += fmt::format("{:12} {:5} {:5} {:6} {:5} {:6.1f} s\n", fault, tally.plays, tally.found,
                         tally.missed, tally.wrong, tally.slowest_s);
    all.found += tally.found;
    all.missed += tally.missed;
    all.wrong += tally.wrong;
    all.slowest_s = std::max(all.slowest_s, tally.slowest_s);
  }
  const double recall = all.found / std::max(1.0, double(all.found) + all.missed);
  const double precision = all.found / std::max(1.0, double(all.found) + all.wrong);
  table += fmt::format("precision {:.3f} recall {:.3f}\n", precision, recall);
  std::cout << table;
  EXPECT_GE(recall, 0.95) << troubles;
  EXPECT_GE(precision, 0.95) << troubles;
  EXPECT_LE(all.slowest_s, 10) << troubles;
}

TEST(sim, a_scenario_is_the_same_each_time_it_is_played) {
  const Scenario scenario = draw_scenario(5, kRanksMax);
  const Play first = play(scenario);
  const Play second = play(scenario);
  EXPECT_EQ(first.rows, second.rows);
  ASSERT_EQ(first.findings.size(), second.findings.size());
  for (size_t i = 0; i < first.findings.size(); ++i) {
    EXPECT_EQ(to_text(first.findings[i].to_json()), to_text(second.findings[i].to_json()));
  }
}

}  // namespace
}  // namespace paramedic::sim
