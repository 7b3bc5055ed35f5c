#include "cluster/pace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "cluster/cluster.h"
#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kBeatsAReport = 10;

// What a rank does in a beat, in milliseconds.
struct Work {
  double self = 30;
  double delay = 0;  // of self: it had no core
  double gc = 0;     // of self
};

// A line at which a rank is seen in `share` of its looks.
struct Seen {
  std::string kind;
  int line = 0;
  double share = 0;
  bool still = false;
};

// A synchronous job: a beat takes as long as its slowest rank, and 2 ms for the collective.
class Job {
 public:
  explicit Job(int ranks) : ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) begin(rank);
  }

  void begin(int rank, int threads = 1, int cores = 64, int nice = 0) {
    event(rank, "pace_begins",
          fmt::format(R"({{"threads":{},"cores":{},"nice":{},"ranks_here":{}}})", threads, cores,
                      nice, ranks_));
  }

  // `later`: seconds from now.
  void metric(int32_t pid, const std::string& name, double value, int later = 0) {
    cluster_->on_metric({now_ns_ + later * kSecond, pid, name, value});
  }

  // `work`: of (rank, beat). `seen`: of a rank.
  void run(int beats, const std::function<Work(int, int)>& work,
           const std::function<std::vector<Seen>(int)>& seen = {}) {
    for (int done = 0; done < beats; done += kBeatsAReport) report(work, seen);
    cluster_->finish();
  }

  [[nodiscard]] std::vector<rules::Finding> found(const std::string& id) const {
    return found_.of(id);
  }
  [[nodiscard]] size_t loud() const {
    size_t count = 0;
    for (const rules::Finding& finding : found_.all()) {
      count += finding.severity != rules::Severity::kInfo ? 1 : 0;
    }
    return count;
  }

 private:
  void event(int rank, std::string kind, std::string json) {
    store::EventRow row;
    row.origin = origin_of(rank, now_ns_, beat_);
    row.kind = std::move(kind);
    row.json = std::move(json);
    cluster_->on_event(row);
  }

  void report(const std::function<Work(int, int)>& work,
              const std::function<std::vector<Seen>(int)>& seen) {
    std::vector<std::vector<Work>> all(static_cast<size_t>(ranks_));
    std::vector<double> longest(static_cast<size_t>(kBeatsAReport), 0);
    double wall = 0;
    for (size_t i = 0; i < longest.size(); ++i) {
      for (int rank = 0; rank < ranks_; ++rank) {
        const Work& done =
            all[static_cast<size_t>(rank)].emplace_back(work(rank, beat_ + static_cast<int>(i)));
        longest[i] = std::max(longest[i], done.self);
      }
      wall += longest[i] + 2;
    }
    now_ns_ += static_cast<int64_t>(wall * 1e6);
    for (int rank = 0; rank < ranks_; ++rank) {
      tell(rank, all[static_cast<size_t>(rank)], longest, {wall, seen});
    }
    beat_ += kBeatsAReport;
    Moment moment;
    moment.time_ns = now_ns_;
    for (int rank = 0; rank < ranks_; ++rank) moment.processes.push_back(process_of(rank, ranks_));
    cluster_->tick(moment);
  }

  struct Around {
    double wall;
    const std::function<std::vector<Seen>(int)>& seen;
  };

  void tell(int rank, const std::vector<Work>& beats, const std::vector<double>& longest,
            const Around& around) {
    Json json;
    json["first"] = beat_;
    double delay = 0;
    double gc = 0;
    for (size_t i = 0; i < beats.size(); ++i) {
      json["self_us"].push_back(static_cast<int64_t>(beats[i].self * 1000));
      json["wait_us"].push_back(static_cast<int64_t>((longest[i] + 2 - beats[i].self) * 1000));
      delay += beats[i].delay;
      gc += beats[i].gc;
    }
    json["wall_ms"] = around.wall;
    json["cpu_ms"] = around.wall / 2;
    json["delay_ms"] = delay;
    json["gc_ms"] = gc;
    json["looks"] = 100;
    for (const Seen& line : around.seen ? around.seen(rank) : std::vector<Seen>{}) {
      json["lines"].push_back({{"file", "/job/train.py"},
                               {"line", line.line},
                               {"function", "main"},
                               {"kind", line.kind},
                               {"looks", line.share * 100},
                               {"still", line.still ? line.share * 100 : 0}});
    }
    if (gc > 0) {
      json["gc_lines"].push_back(
          {{"file", "/job/train.py"}, {"line", 7}, {"function", "main"}, {"ms", gc}});
      json["gc_lines"][0]["kind"] = "gc";
    }
    event(rank, "pace", to_text(json));
  }

  const int ranks_;
  Found found_;
  std::unique_ptr<Cluster> cluster_ = Cluster::create(found_);
  int64_t now_ns_ = 100 * kSecond;
  int beat_ = 0;
};

Work steady(double self) { return {self, 0, 0}; }

TEST(pace, a_rank_that_sleeps_in_each_step_is_named_with_its_line) {
  Job job(4);
  job.run(
      100, [](int rank, int) { return steady(rank == 2 ? 110 : 30); },
      [](int rank) {
        return rank == 2 ? std::vector<Seen>{{"host", 12, 0.7, true}, {"forward", 20, 0.2}}
                         : std::vector<Seen>{{"forward", 20, 0.2}};
      });
  const auto found = job.found("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].severity, rules::Severity::kWarning);
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->line, 12);
  // 112 ms with it, 32 ms without.
  EXPECT_NE(found[0].message.find("3.50 times as fast"), std::string::npos) << found[0].message;
  EXPECT_EQ(job.loud(), 1U);
}

TEST(pace, the_line_that_all_ranks_share_is_not_the_cause) {
  Job job(4);
  job.run(
      100, [](int rank, int) { return steady(rank == 1 ? 100 : 60); },
      [](int rank) {
        std::vector<Seen> seen{{"backward", 30, 0.5}};
        if (rank == 1) seen.push_back({"data", 14, 0.38, true});
        return seen;
      });
  const auto found = job.found("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->line, 14);
}

TEST(pace, a_rank_that_collects_garbage_now_and_then_is_named_when_it_costs) {
  Job job(4);
  job.run(200, [](int rank, int beat) {
    const bool collects = rank == 3 && beat % 10 == 0;
    return Work{collects ? 400.0 : 40.0, 0, collects ? 360.0 : 0.0};
  });
  const auto found = job.found("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->line, 7);
}

TEST(pace, a_rank_that_the_kernel_starves_is_named_without_a_line) {
  Job job(2);
  job.begin(0);
  job.begin(1, 1, 64, 19);
  job.run(120, [](int rank, int) { return rank == 1 ? Work{150, 110, 0} : Work{45, 5, 0}; });
  const auto found = job.found("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_FALSE(found[0].where);
}

TEST(pace, who_takes_the_core_of_a_rank_is_a_noisy_neighbour) {
  Job job(2);
  // GIVEN a machine of 2 cores, of which the job has 80 % of one
  job.metric(0, "machine_cores", 2);
  job.metric(0, "machine_cpu_percent", 100);
  job.metric(1000, "cpu_percent", 50);
  job.metric(1001, "cpu_percent", 30);
  job.run(120, [](int rank, int) { return rank == 1 ? Work{150, 110, 0} : Work{45, 5, 0}; });
  const auto found = job.found("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].evidence[1],
            "a noisy neighbour: processes outside of the job use 1.2 of the machine's 2 cores");
}

TEST(pace, a_limit_of_its_own_group_is_no_neighbour) {
  Job job(2);
  job.metric(0, "machine_cores", 2);
  job.metric(0, "machine_cpu_percent", 100);
  job.metric(1001, "throttled_ms", 500);
  job.metric(1001, "throttled_ms", 1700, 2);
  job.run(120, [](int rank, int) { return rank == 1 ? Work{150, 110, 0} : Work{45, 5, 0}; });
  const auto found = job.found("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence[1],
            "its control group has used what it may for 60 % of the time (cpu.max)");
}

TEST(pace, what_costs_the_job_little_is_no_straggler) {
  Job job(4);
  job.run(400, [](int rank, int) { return steady(rank == 2 ? 33 : 30); });
  EXPECT_EQ(job.loud(), 0U);
}

TEST(pace, a_checkpoint_or_an_evaluation_of_one_rank_is_no_straggler) {
  Job job(4);
  job.run(
      400, [](int rank, int beat) { return steady(rank == 0 && beat % 20 == 19 ? 900 : 30); },
      [](int rank) {
        return rank == 0 ? std::vector<Seen>{{"checkpoint", 40, 0.5}} : std::vector<Seen>{};
      });
  EXPECT_EQ(job.loud(), 0U);
}

TEST(pace, a_report_that_one_rank_writes_each_tenth_step_is_no_straggler) {
  Job job(4);
  // GIVEN a busy machine: another step of the rank is long as well
  job.run(800, [](int rank, int beat) {
    if (rank != 0) return steady(20);
    return steady(beat % 10 == 9 ? 80 : beat % 10 == 4 ? 45 : 20);
  });
  EXPECT_EQ(job.loud(), 0U);
}

TEST(pace, the_first_steps_of_a_rank_are_no_straggler) {
  Job job(2);
  job.run(300, [](int rank, int beat) { return steady(rank == 1 && beat < 3 ? 5000 : 30); });
  EXPECT_EQ(job.loud(), 0U);
}

TEST(pace, ranks_that_take_turns_are_told_once_and_without_a_name) {
  Job job(4);
  job.run(
      300, [](int rank, int beat) { return steady(beat % 4 == rank ? 100 : 40); },
      [](int) { return std::vector<Seen>{{"host", 12, 0.147, true}, {"forward", 20, 0.3}}; });
  const auto found = job.found("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].rank);
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->line, 12);
  EXPECT_EQ(found[0].message,
            "4 ranks take turns at being slow, in 100 % of the steps: then one of them works 100 "
            "ms and the others 40 ms, and wait; without that the job would be 2.43 times as fast");
  EXPECT_EQ(job.loud(), 1U);
}

TEST(pace, garbage_that_each_rank_collects_at_another_step_is_told_of_all) {
  Job job(4);
  job.run(400, [](int rank, int beat) {
    const bool collects = beat % 12 == rank * 3;
    return Work{collects ? 240.0 : 40.0, 0, collects ? 190.0 : 0.0};
  });
  const auto found = job.found("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].rank);
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->line, 7);
}

TEST(pace, a_duty_that_goes_round_among_the_ranks_is_well_so) {
  // GIVEN ranks that write a checkpoint in turns, one every sixteenth step, or evaluate in every
  // fourth one
  for (const bool is_checkpoint : {true, false}) {
    Job job(4);
    const int every = is_checkpoint ? 16 : 4;
    job.run(
        400,
        [&](int rank, int beat) {
          return steady(beat % every == 0 && beat / every % 4 == rank ? 200 : 40);
        },
        [&](int) {
          return std::vector<Seen>{
              {is_checkpoint ? "checkpoint" : "validation", 30, is_checkpoint ? 0.05 : 0.12}};
        });
    EXPECT_EQ(job.loud(), 0U) << is_checkpoint;
  }
}

TEST(pace, loaders_that_fall_behind_at_different_steps_are_no_turns) {
  Job job(4);
  job.run(
      400, [](int rank, int beat) { return steady(beat % 4 == rank ? 120 : 40); },
      [](int) { return std::vector<Seen>{{"data", 14, 0.2, true}, {"forward", 20, 0.2}}; });
  EXPECT_EQ(job.loud(), 0U);
}

TEST(pace, batches_of_uneven_length_are_no_turns) {
  for (int seed = 0; seed < 20; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::uniform_real_distribution<double> self(20, 80);
    Job job(2 + seed % 3);
    job.run(600, [&](int, int) { return steady(self(random)); });
    EXPECT_EQ(job.loud(), 0U) << "seed " << seed;
  }
}

TEST(pace, input_that_all_ranks_wait_for_is_told_of_the_job) {
  Job job(4);
  job.run(
      100, [](int, int) { return steady(120); },
      [](int) { return std::vector<Seen>{{"data", 22, 0.8, true}, {"backward", 40, 0.15}}; });
  const auto found = job.found("input_bottleneck");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].rank);
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->line, 22);
  EXPECT_EQ(job.loud(), 1U);
}

TEST(pace, input_of_a_small_model_that_takes_few_milliseconds_is_well_so) {
  Job job(2);
  job.run(
      1200, [](int, int) { return steady(12); },
      [](int) { return std::vector<Seen>{{"data", 22, 0.7}}; });
  EXPECT_EQ(job.loud(), 0U);
}

TEST(pace, more_threads_than_twice_the_cores_are_told) {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) job.begin(rank, 8, 2);
  job.run(20, [](int, int) { return steady(30); });
  const auto found = job.found("cpu_oversubscription");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, rules::Severity::kWarning);
  EXPECT_FALSE(found[0].rank);
}

TEST(pace, ranks_of_one_thread_that_share_cores_are_worth_no_warning) {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) job.begin(rank, 1, 2);
  job.run(20, [](int, int) { return steady(30); });
  EXPECT_EQ(job.found("cpu_oversubscription").size(), 1U);
  EXPECT_EQ(job.loud(), 0U);
}

TEST(pace, healthy_jobs_on_a_busy_machine_have_no_warning) {
  // GIVEN jobs of 2 to 4 ranks on too few cores: steps differ by a factor of three, mostly because
  // the kernel has no core, and single steps are ten times as long
  for (int seed = 0; seed < 25; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::lognormal_distribution<double> self(3.5, 0.35);
    std::uniform_real_distribution<double> uniform(0, 1);
    Job job(2 + seed % 3);
    // WHEN each runs for some ten spans of what the watches look at
    job.run(600, [&](int, int) {
      Work work{self(random) * (uniform(random) < 0.02 ? 8 : 1), 0, 0};
      work.delay = work.self * 0.4 * uniform(random);
      return work;
    });
    // THEN nobody is accused
    EXPECT_EQ(job.loud(), 0U) << "seed " << seed;
  }
}

TEST(pace, events_that_lie_do_no_harm) {
  Found found;
  const auto cluster = Cluster::create(found);
  for (const char* json :
       {"", "[]", "{}", R"({"self_us":3,"wait_us":[]})", R"({"first":-5,"self_us":["x",1e300]})",
        R"({"first":9223372036854775807,"self_us":[1,2],"wait_us":[1,2],"lines":[7,{}]})"}) {
    for (const char* kind : {"pace_begins", "pace"}) {
      for (int32_t rank : {0, 1, -1}) {
        store::EventRow row;
        row.origin = origin_of(rank, kSecond);
        row.kind = kind;
        row.json = json;
        cluster->on_event(row);
      }
    }
  }
  cluster->finish();
  EXPECT_TRUE(found.all().empty());
}

}  // namespace
}  // namespace paramedic::cluster
