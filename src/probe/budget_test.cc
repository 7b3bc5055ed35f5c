#include "probe/budget.h"

#include <gtest/gtest.h>

#include <random>

#include "probe/schedule.h"

namespace paramedic::probe {
namespace {

using record::Kind;
using record::Mode;

constexpr int64_t kMs = 1'000'000;
constexpr const char* kEverything =
    "collection w kind=weight interval=1\n"
    "collection g kind=gradient interval=1\n"
    "collection a kind=activation interval=1\n";

constexpr uint32_t bit(Kind kind) { return 1U << static_cast<uint32_t>(kind); }

struct Job {
  int64_t step_ns = 10 * kMs;                            // without capturing
  int64_t fixed_ns = 0;                                  // cost of every step
  std::array<int64_t, 3> cost_ns = {kMs, kMs, 2 * kMs};  // of weights, gradients, activations
  bool noisy = false;                                    // costs vary from a quarter to four times
};

struct Outcome {
  std::array<int, 3> samples = {};
  uint32_t first_due = 0;
  double overhead_percent = 0;
};

// A simulated training run; time is only told, never measured.
Outcome simulate(const Job& job, const char* plan_text, double share, int64_t steps) {
  const Plan plan = parse_plan(plan_text).value();
  Budget budget(share);
  Schedule schedule(plan, budget);
  std::mt19937 random(5);
  Outcome outcome;
  for (int64_t step = 0; step < steps; step++) {
    const uint32_t due = schedule.due(Mode::kTrain, step);
    if (step == 0) outcome.first_due = due;
    int64_t spent_ns = job.fixed_ns;
    for (uint32_t kind = 0; kind < 3; kind++) {
      if ((due >> kind & 1) == 0) continue;
      outcome.samples[kind]++;
      const int64_t factor = job.noisy ? (random() % 4 == 0 ? 16 : 1) : 4;
      const int64_t cost_ns = job.cost_ns[kind] * factor / 4;
      budget.spent(static_cast<Kind>(kind), cost_ns);
      spent_ns += cost_ns;
    }
    budget.step_done(job.step_ns + spent_ns, job.fixed_ns, 0);
  }
  outcome.overhead_percent = budget.overhead_ppm() / 1e4;
  return outcome;
}

TEST(Budget, holds_1_and_5_percent_when_everything_is_asked_for_each_step) {
  for (const double share : {0.01, 0.05}) {
    for (const bool noisy : {false, true}) {
      Job job;
      job.noisy = noisy;
      const Outcome outcome = simulate(job, kEverything, share, 20'000);
      EXPECT_LE(outcome.overhead_percent, 100 * share) << noisy;
      EXPECT_GE(outcome.overhead_percent, 90 * share) << "a budget is there to be used";
      for (const int samples : outcome.samples) EXPECT_GT(samples, 100);
    }
  }
}

TEST(Budget, holds_when_one_sample_costs_as_much_as_many_steps) {
  Job job;
  job.cost_ns = {kMs / 10, kMs / 10, 500 * kMs};
  const Outcome outcome = simulate(job, kEverything, 0.01, 100'000);
  EXPECT_LE(outcome.overhead_percent, 1.0);
  EXPECT_GE(outcome.samples[2], 10) << "a costly kind is not starved by cheap ones";
  EXPECT_GE(outcome.samples[0], 10);
}

TEST(Budget, a_cost_of_every_step_is_charged) {
  Job job;
  job.fixed_ns = job.step_ns / 200;  // 0.5 %
  const Outcome outcome = simulate(job, kEverything, 0.01, 20'000);
  EXPECT_LE(outcome.overhead_percent, 1.0);
}

TEST(Budget, a_cost_of_every_step_above_the_budget_leaves_a_few_samples) {
  Job job;
  job.fixed_ns = job.step_ns / 50;  // 2 %
  const Outcome outcome = simulate(job, kEverything, 0.01, 20'000);
  EXPECT_LE(outcome.overhead_percent, 2.0 + 0.1 + 0.02) << "a tenth of the budget, and the loan";
  for (const int samples : outcome.samples) EXPECT_GE(samples, 20);
}

TEST(Budget, the_first_step_has_a_sample_of_each_kind_whatever_it_costs) {
  Job job;
  job.cost_ns = {500 * kMs, 500 * kMs, 500 * kMs};
  const Outcome outcome = simulate(job, kEverything, 0.01, 10);
  EXPECT_EQ(outcome.first_due, bit(Kind::kWeight) | bit(Kind::kGradient) | bit(Kind::kActivation));
  EXPECT_EQ(outcome.samples, (std::array<int, 3>{1, 1, 1}));
}

TEST(Budget, a_short_job_lives_on_the_loan) {
  Job job;
  job.step_ns = kMs;
  job.cost_ns = {kMs / 10, kMs / 10, kMs / 10};
  const Outcome outcome = simulate(job, "", 0.01, 300);
  EXPECT_EQ(outcome.samples, (std::array<int, 3>{30, 30, 6})) << "all that the plan asks for";
}

TEST(Budget, the_default_plan_is_not_touched_when_it_is_cheap) {
  Job job;
  job.cost_ns = {kMs / 20, kMs / 20, kMs / 20};
  const Outcome outcome = simulate(job, "", 0.01, 10'000);
  EXPECT_EQ(outcome.samples, (std::array<int, 3>{1000, 1000, 200}));
}

TEST(Budget, zero_is_no_limit) {
  EXPECT_EQ(simulate({}, kEverything, 0, 100).samples, (std::array<int, 3>{100, 100, 100}));
}

TEST(Budget, estimates_follow_the_measured_cost_and_the_callers_part_is_shared_out) {
  Budget budget(0.01);
  budget.spent(Kind::kWeight, 1000);
  budget.step_done(kMs, 600, bit(Kind::kWeight) | bit(Kind::kGradient));
  EXPECT_EQ(budget.estimate_ns(Kind::kWeight), 1300);
  EXPECT_EQ(budget.estimate_ns(Kind::kGradient), 300);
  EXPECT_EQ(budget.overhead_ppm(), 1600u);
  budget.spent(Kind::kWeight, 900);
  budget.step_done(kMs, 0, 0);
  EXPECT_EQ(budget.estimate_ns(Kind::kWeight), 1200);
}

TEST(Budget, odd_times_change_nothing_for_ever) {
  Budget budget(0.01);
  budget.spent(Kind::kWeight, -5);
  budget.step_done(-1, -1, 0xffffffff);
  EXPECT_EQ(budget.overhead_ppm(), 0u);
  EXPECT_EQ(budget.tokens_ns(), kInitialCreditNs);
  EXPECT_TRUE(budget.take(Kind::kWeight, false));
}

}  // namespace
}  // namespace paramedic::probe
