// What is told of copies that part, and of jobs that look so and are well.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::string hex(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (const uint64_t number : numbers) text += fmt::format("{:016x}", number);
  return text;
}

// What one rank holds of its two tensors around one update. Equal numbers are equal tensors.
struct Held {
  std::vector<uint64_t> before;
  std::vector<uint64_t> gradients;
  std::vector<uint64_t> after;
  double loss = 0;
};

// Copies that are kept equal by gradients that are reduced: each rank has data of its own.
Held in_step(int32_t rank, int64_t step) {
  const auto at = static_cast<uint64_t>(step);
  return {{100 + at, 200 + at}, {300 + at, 400 + at}, {101 + at, 201 + at}, 1.0 + 0.1 * rank};
}

// Copies of which each rank goes its own way.
Held alone(int32_t rank, int64_t step) {
  const auto own = 1000 * (static_cast<uint64_t>(rank) + 1);
  Held held = in_step(rank, step);
  for (auto* values : {&held.before, &held.gradients, &held.after}) {
    for (uint64_t& value : *values) value += own;
  }
  return held;
}

constexpr int64_t kStepsBetween = 1000;

struct Job {
  int32_t ranks = 4;
  std::string flags = "..";
  std::string wrapped = "[]";
  bool averaging = false;
  std::string sampler;
  uint64_t traffic_bytes = 0;
  uint64_t traffic_between = 0;  // in steps that are not looked at
  std::string operation = "all_reduce";
  std::map<int32_t, std::string> names;     // of tensors, where a rank has others
  std::map<int32_t, std::string> branches;  // JSON, by rank
  std::map<int32_t, double> rates;
};

using Holds = std::function<Held(int32_t rank, int64_t step)>;

class Scenario {
 public:
  explicit Scenario(const Job& job) : job_(job), cluster_(Cluster::create(found_)) {}

  // `steps` looks of all ranks at the same steps; then the job ends.
  std::vector<rules::Finding> of(const Holds& holds, int64_t steps = 12) {
    for (int32_t rank = 0; rank < job_.ranks; ++rank) begin(rank);
    for (int64_t step = 0; step < steps; ++step) {
      for (int32_t rank = 0; rank < job_.ranks; ++rank) look(rank, step, holds(rank, step));
      Moment moment;
      moment.time_ns = (step + 1) * kSecond;
      cluster_->tick(moment);
      if (!found_.of("parameters_desync").empty() && told_after_ < 0) told_after_ = step;
    }
    cluster_->finish();
    return found_.of("parameters_desync");
  }
  // The last step that had come when it was told; -1: at the end, or never.
  [[nodiscard]] int64_t told_after() const { return told_after_; }

 private:
  void event(int32_t rank, int64_t step, const std::string& kind, std::string json) {
    store::EventRow row;
    row.origin = origin_of(rank, step * kSecond, step);
    row.kind = kind;
    row.json = std::move(json);
    cluster_->on_event(row);
  }

  void fact(int32_t rank, const std::string& kind, const std::string& name, int32_t line,
            std::string detail) {
    store::ModelRow row;
    row.origin = origin_of(rank, 0, 0);
    row.kind = kind;
    row.name = name;
    row.file = "train.py";
    row.line = line;
    row.function = "main";
    row.detail = std::move(detail);
    cluster_->on_model(row);
  }

  void scalar(int32_t rank, int64_t step, const std::string& name, double value) {
    store::ScalarRow row;
    row.origin = origin_of(rank, step * kSecond, step);
    row.name = &*names_.insert(name).first;
    row.value = value;
    cluster_->on_scalar(row);
  }

  void begin(int32_t rank) {
    event(rank, 0, "fit_started", "{}");
    fact(rank, "parameter", "a", 20, "{}");
    fact(rank, "parameter", "b", 20, "{}");
    fact(rank, "optimizer", "SGD", 21, R"({"step": {"file": "train.py", "line": 31}})");
    if (!job_.sampler.empty()) {
      fact(rank, "loader", "train.py:19", 19, fmt::format(R"({{"sampler": "{}"}})", job_.sampler));
    }
    const auto names = job_.names.find(rank);
    event(
        rank, 0, "replica_tensors",
        fmt::format(R"({{"optimizer": "SGD", "world_size": {}, "names": {}, "elements": [90, 10],)"
                    R"( "flags": "{}", "ranks": {}, "averaging": {}}})",
                    job_.ranks, names == job_.names.end() ? R"(["a", "b"])" : names->second,
                    job_.flags, job_.wrapped, job_.averaging));
    if (const auto branches = job_.branches.find(rank); branches != job_.branches.end()) {
      event(rank, 0, "rank_branches", fmt::format(R"({{"branches": [{}]}})", branches->second));
    }
    if (const auto rate = job_.rates.find(rank); rate != job_.rates.end()) {
      scalar(rank, 0, "learning_rate/SGD/0", rate->second);
    }
  }

  void exchange(int32_t rank, int64_t step, uint64_t bytes) {
    store::CollectiveRow row;
    row.origin = origin_of(rank, step * kSecond, step);
    std::vector<int32_t> members(static_cast<size_t>(job_.ranks));
    std::iota(members.begin(), members.end(), 0);
    group_.ranks = store::Members(std::move(members));
    row.group = &group_;
    row.sequence = step;
    row.operation = job_.operation;
    row.bytes = bytes;
    cluster_->on_collective(row);
  }

  void look(int32_t rank, int64_t step, const Held& held) {
    scalar(rank, step, "loss/train.py:30", held.loss);
    if (job_.traffic_bytes > 0) exchange(rank, step, job_.traffic_bytes);
    event(rank, step, "fingerprints",
          fmt::format(R"({{"optimizer": "SGD", "count": {}, "before": "{}", "gradients": "{}",)"
                      R"( "after": "{}"}})",
                      step, hex(held.before), hex(held.gradients), hex(held.after)));
    if (job_.traffic_between > 0) exchange(rank, kStepsBetween + step, job_.traffic_between);
  }

  Job job_;
  Found found_;
  std::unique_ptr<Cluster> cluster_;
  std::set<std::string> names_;
  store::GroupInfo group_;
  int64_t told_after_ = -1;
};

std::string branch(int32_t line, const char* kind, const char* taken) {
  return fmt::format(R"({{"where": {{"file": "train.py", "line": {}, "function": "main"}},)"
                     R"( "kinds": ["{}"], "of_rank": true, "taken": {}}})",
                     line, kind, taken);
}

// Rank `odd` holds something else of all tensors from `step` on; gradients stay equal.
Holds other_weights(int32_t odd, int64_t step) {
  return [=](int32_t rank, int64_t at) {
    Held held = in_step(rank, at);
    if (rank != odd || at < step) return held;
    for (uint64_t& value : held.before) value += 5000;
    for (uint64_t& value : held.after) value += 5000;
    return held;
  };
}

TEST(parameters_desync,
     names_the_rank_whose_initial_weights_are_others_and_the_line_that_made_them) {
  Job job;
  for (int32_t rank = 0; rank < 4; ++rank) {
    job.branches[rank] = branch(12, "random", rank == 3 ? "true" : "false") + "," +
                         branch(40, "random", rank == 3 ? "true" : "false");
  }
  Scenario run(job);
  const auto found = run.of(other_weights(3, 0));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, rules::Severity::kError);
  EXPECT_EQ(found[0].rank, 3);
  EXPECT_EQ(found[0].step, 0);
  EXPECT_EQ(found[0].tensor, "a");
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->line, 12);
  EXPECT_EQ(run.told_after(), 1);
  EXPECT_EQ(found[0].message,
            "the weights of rank 3 are not those of the other ranks from the start: a and 1 more "
            "differ");
}

TEST(parameters_desync, names_the_line_of_the_model_where_no_line_tells_ranks_apart) {
  const auto found = Scenario({}).of(other_weights(0, 0));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(found[0].where->line, 20);
}

TEST(parameters_desync, names_no_rank_where_all_of_them_differ) {
  const auto found = Scenario({}).of([](int32_t rank, int64_t step) {
    Held held = alone(rank, step);
    held.gradients = in_step(rank, step).gradients;
    return held;
  });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].rank);
}

TEST(parameters_desync, tells_an_edit_between_two_updates_on_one_rank) {
  Job job;
  for (int32_t rank = 0; rank < 4; ++rank) {
    job.branches[rank] = branch(33, "weights", rank == 1 ? "null" : "false");
  }
  const auto found = Scenario(job).of(other_weights(1, 5));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].step, 5);
  EXPECT_EQ(found[0].where->line, 33);
}

TEST(parameters_desync, tells_an_optimizer_with_another_rate_on_one_of_two_ranks) {
  Job job;
  job.ranks = 2;
  job.rates = {{0, 0.1}, {1, 0.01}};
  for (int32_t rank = 0; rank < 2; ++rank) {
    job.branches[rank] = branch(21, "rate", rank == 1 ? "true" : "false");
  }
  const auto found = Scenario(job).of([](int32_t rank, int64_t step) {
    Held held = other_weights(1, 1)(rank, step);
    if (rank == 1 && step == 0) held.after[0] += 5000;
    return held;
  });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].step, 0);
  EXPECT_EQ(found[0].where->line, 21);
  EXPECT_NE(found[0].to_json().dump().find("learning_rate/SGD/0 is 0.01"), std::string::npos);
}

// Rank 2 changes its gradients after they were reduced.
Held clipped(int32_t rank, int64_t step) {
  Held held = step == 0 ? in_step(rank, step) : other_weights(2, 1)(rank, step);
  if (rank != 2) return held;
  for (uint64_t& value : held.gradients) value += 7000;
  for (uint64_t& value : held.after) value += step == 0 ? 5000 : 0;
  return held;
}

TEST(parameters_desync, tells_gradients_that_one_rank_changes_after_they_were_reduced) {
  Job job;
  for (int32_t rank = 0; rank < 4; ++rank) {
    job.branches[rank] = branch(29, "gradient", rank == 2 ? "true" : "false");
  }
  const auto found = Scenario(job).of(clipped);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].where->line, 29);
}

TEST(parameters_desync, tells_a_wrapped_model_that_goes_around_its_wrapper) {
  Job job;
  job.flags = "dd";
  job.wrapped = "[0, 1, 2, 3]";
  const auto found = Scenario(job).of([](int32_t rank, int64_t step) {
    Held held = alone(rank, step);
    if (step == 0) held.before = in_step(rank, step).before;
    return held;
  });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].rank);
  EXPECT_EQ(found[0].severity, rules::Severity::kError);
}

// Copies that are equal at first; the gradients of the second tensor are not reduced.
Held second_is_own(int32_t rank, int64_t step) {
  Held held = in_step(rank, step);
  const Held own = alone(rank, step);
  held.gradients[1] = own.gradients[1];
  if (step > 0) held.before[1] = own.before[1];
  held.after[1] = own.after[1];
  return held;
}

TEST(parameters_desync, of_a_whole_module_that_each_rank_trains_by_itself_there_is_none) {
  Job job;
  job.traffic_bytes = 1000;
  for (int32_t rank = 0; rank < job.ranks; ++rank) job.names[rank] = R"(["body.0.w", "head.w"])";
  EXPECT_TRUE(Scenario(job).of(second_is_own).empty());
}

TEST(parameters_desync, of_experts_to_which_samples_are_sent_there_is_none) {
  Job job;
  job.traffic_bytes = 1000;
  job.operation = "all_to_all_single";
  EXPECT_TRUE(Scenario(job).of(second_is_own).empty());
}

TEST(parameters_desync, tells_a_single_tensor_that_is_left_out_of_the_reduction) {
  const auto found = Scenario({}).of(second_is_own);
  // Nothing says yet whether `b` is meant to be a copy, but that `a` is in the same optimizer.
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].tensor, "b");
}

// Equal only at the start, and updated with gradients of their own.
Held never_in_step(int32_t rank, int64_t step) {
  Held held = alone(rank, step);
  if (step == 0) held.before = in_step(rank, step).before;
  return held;
}

TEST(parameters_desync, warns_at_the_end_of_shared_out_data_that_no_rank_hears_of) {
  Job job;
  job.sampler = "DistributedSampler";
  Scenario run(job);
  const auto found = run.of(never_in_step);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, rules::Severity::kWarning);
  EXPECT_EQ(run.told_after(), -1);
}

TEST(parameters_desync, of_ranks_that_exchange_all_in_steps_that_are_not_looked_at_there_is_none) {
  // Local updates, averaged now and then.
  Job job;
  job.sampler = "DistributedSampler";
  job.traffic_between = 400;
  EXPECT_TRUE(Scenario(job).of(never_in_step).empty());
}

TEST(parameters_desync, of_copies_in_step_there_is_none) {
  EXPECT_TRUE(Scenario({}).of(in_step).empty());
  Job job;
  job.flags = "dd";
  job.wrapped = "[0, 1, 2, 3]";
  EXPECT_TRUE(Scenario(job).of(in_step).empty());
}

TEST(parameters_desync, of_models_that_each_rank_trains_by_itself_there_is_none) {
  EXPECT_TRUE(Scenario({}).of(alone).empty());
}

TEST(parameters_desync, of_a_search_for_rates_from_the_same_weights_there_is_none) {
  // The same data: the first gradients are equal, and then the rates part the ranks.
  EXPECT_TRUE(Scenario({})
                  .of([](int32_t rank, int64_t step) {
                    Held held = alone(rank, step);
                    held.loss = step == 0 ? 1.0 : held.loss;
                    if (step == 0) held.before = in_step(rank, 0).before;
                    if (step == 0) held.gradients = in_step(rank, 0).gradients;
                    return held;
                  })
                  .empty());
}

TEST(parameters_desync, of_models_that_are_averaged_now_and_then_there_is_none) {
  for (const int64_t interval : {1, 2, 4, 8}) {
    const auto found = Scenario({}).of(
        [&](int32_t rank, int64_t step) {
          Held held = alone(rank, step);
          if (step % interval == 0) held.before = in_step(rank, step).before;
          return held;
        },
        33);
    EXPECT_TRUE(found.empty()) << interval;
  }
}

TEST(parameters_desync, of_local_updates_by_torchs_own_averaging_there_is_none) {
  Job job;
  job.flags = "dd";
  job.wrapped = "[0, 1, 2, 3]";
  job.averaging = true;
  EXPECT_TRUE(Scenario(job)
                  .of([](int32_t rank, int64_t step) {
                    return step < 5 ? in_step(rank, step) : alone(rank, step);
                  })
                  .empty());
}

TEST(parameters_desync, of_shards_there_is_none) {
  Job job;
  job.flags = "ss";
  EXPECT_TRUE(Scenario(job).of(other_weights(3, 0)).empty());
}

TEST(parameters_desync, of_layers_split_by_hand_beside_replicated_ones_there_is_none) {
  // Tensor `a` is a shard of each rank, `b` is the same on all.
  EXPECT_TRUE(Scenario({})
                  .of([](int32_t rank, int64_t step) {
                    Held held = in_step(rank, step);
                    const Held own = alone(rank, step);
                    held.before[0] = own.before[0];
                    held.gradients[0] = own.gradients[0];
                    held.after[0] = own.after[0];
                    return held;
                  })
                  .empty());
}

TEST(parameters_desync, of_split_layers_that_began_equal_there_is_none) {
  Job job;
  job.ranks = 2;
  job.traffic_bytes = 10'000;  // activations
  EXPECT_TRUE(Scenario(job)
                  .of([](int32_t rank, int64_t step) {
                    Held held = in_step(0, step);  // the same data: the same loss
                    const Held own = alone(rank, step);
                    if (step > 0) held.before[0] = own.before[0];
                    held.gradients[0] = own.gradients[0];
                    held.after[0] = own.after[0];
                    return held;
                  })
                  .empty());
}

TEST(parameters_desync, of_partitions_under_the_same_names_there_is_none) {
  // As sharded optimizers keep them: all is exchanged in each step, and nothing was ever equal.
  Job job;
  job.traffic_bytes = 10'000;
  EXPECT_TRUE(Scenario(job).of(alone, 20).empty());
}

TEST(parameters_desync, tells_two_ranks_one_of_which_changes_reduced_gradients_by_the_traffic) {
  Job job;
  job.ranks = 2;
  job.traffic_bytes = 400;
  for (int32_t rank = 0; rank < 2; ++rank) {
    job.branches[rank] = branch(29, "gradient", rank == 0 ? "true" : "false");
  }
  const auto found = Scenario(job).of([](int32_t rank, int64_t step) {
    Held held = alone(rank, step);
    if (step == 0) held.before = in_step(rank, step).before;
    return held;
  });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(found[0].where->line, 29);
}

TEST(parameters_desync, of_stages_with_other_layers_there_is_none) {
  Job job;
  job.names = {{2, R"(["c", "d"])"}, {3, R"(["c", "d"])"}};
  EXPECT_TRUE(Scenario(job)
                  .of([](int32_t rank, int64_t step) {
                    return rank < 2 ? in_step(rank, step) : in_step(rank, step + 100);
                  })
                  .empty());
}

TEST(parameters_desync, of_updates_that_are_not_the_same_there_is_none) {
  // Rank 1 has trained something else before: what it holds belongs to another count.
  Job job;
  job.ranks = 2;
  job.flags = "dd";
  job.wrapped = "[0, 1]";
  Scenario run(job);
  EXPECT_TRUE(run.of([](int32_t rank, int64_t step) { return in_step(rank, step); }).empty());
}

TEST(parameters_desync, of_malformed_rows_there_is_none) {
  Found found;
  const auto cluster = Cluster::create(found);
  for (const char* kind : {"fingerprints", "replica_tensors", "rank_branches"}) {
    for (const char* json : {"", "[]", "{", R"({"names": 3, "flags": "ddd", "before": "zz"})",
                             R"({"branches": [1, {"where": 2}]})", R"({"before": "0123"})"}) {
      store::EventRow row;
      row.origin = origin_of(0, kSecond, 0);
      row.kind = kind;
      row.json = json;
      cluster->on_event(row);
    }
  }
  cluster->finish();
  EXPECT_TRUE(found.all().empty());
}

}  // namespace
}  // namespace paramedic::cluster
