// The watches over configuration, on rows made by hand.

#include <gtest/gtest.h>

#include "cluster/lint/difference.h"
#include "cluster/lint/read_setting.h"
#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// A job whose ranks were started at second 10.
class Job {
 public:
  explicit Job(int world_size) : cluster_(Cluster::create(found_)), world_size_(world_size) {}

  void event(int rank, int64_t time_s, const char* kind, const Json& json) {
    store::EventRow row;
    row.origin = origin_of(rank, time_s * kSecond);
    row.kind = kind;
    row.json = to_text(json);
    cluster_->on_event(row);
  }
  void start(int rank, const std::map<std::string, std::string>& more = {}) {
    Setting setting;
    setting.host = "a";
    setting.variables = {{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", std::to_string(world_size_)},
                         {"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", "29500"}};
    for (const auto& [name, value] : more) {
      (may_show(name) ? setting.variables : setting.digests)[name] = value;
    }
    name_setting(setting);
    event(rank, 10, "environment", setting.to_json());
  }
  void begin(int rank, int64_t time_s, const std::string& port = "29500") {
    event(rank, time_s, "rendezvous",
          {{"state", "begun"},
           {"rank", rank},
           {"world_size", world_size_},
           {"master_addr", "127.0.0.1"},
           {"master_port", port},
           {"where", {{"file", "train.py"}, {"line", 12}, {"function", "main"}}}});
  }
  void done(int rank, int64_t time_s) { event(rank, time_s, "rendezvous", {{"state", "done"}}); }
  void facts(int rank, const std::string& digest, const std::string& lines) {
    event(rank, 12, "facts",
          {{"host", "a"},
           {"values", {{"torch", "2.1"}, {"seed", std::to_string(rank)}}},
           {"modules",
            {{"model", {{"file", "/p/model.py"}, {"digest", digest}, {"lines", lines}}}}}});
  }
  void busy(int rank, int64_t time_s) {
    cluster_->on_metric({time_s * kSecond, 1000 + rank, "cpu_percent", 90});
  }
  std::vector<rules::Finding> tick(int64_t time_s, const std::string& id) {
    Moment moment;
    moment.time_ns = time_s * kSecond;
    cluster_->tick(moment);
    return found_.of(id);
  }
  [[nodiscard]] std::vector<rules::Finding> all() const { return found_.all(); }
  Cluster& cluster() { return *cluster_; }

 private:
  Found found_;
  std::unique_ptr<Cluster> cluster_;
  const int world_size_;
};

TEST(rendezvous_stuck, names_the_rank_that_was_never_started) {
  Job job(4);
  for (const int rank : {0, 1, 3}) job.start(rank);
  for (const int rank : {0, 1, 3}) job.begin(rank, 14);
  EXPECT_TRUE(job.tick(20, "rendezvous_stuck").empty());
  const auto found = job.tick(23, "rendezvous_stuck");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].where->line, 12);
  EXPECT_NE(found[0].message.find("ranks 0, 1, 3 have to wait in init_process_group for rank 2"),
            std::string::npos)
      << found[0].message;
}

// TF_CONFIG was set in Python: /proc does not show it.
TEST(rendezvous_stuck, names_the_task_of_tensorflow_that_was_never_started) {
  Job job(2);
  const Json config = {{"cluster", {{"worker", {"127.0.0.1:1", "127.0.0.1:2"}}}},
                       {"task", {{"type", "worker"}, {"index", 0}}}};
  job.event(0, 14, "rendezvous",
            {{"state", "begun"},
             {"tf_config", to_text(config)},
             {"where", {{"file", "train.py"}, {"line", 12}, {"function", "main"}}}});
  EXPECT_TRUE(job.tick(30, "rendezvous_stuck").empty());
  const auto found = job.tick(40, "rendezvous_stuck");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].where->line, 12);
  EXPECT_NE(found[0].message.find("worker:1"), std::string::npos);
}

TEST(rendezvous_stuck, names_the_rank_that_waits_elsewhere) {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) {
    job.start(rank);
    job.begin(rank, 14, rank == 3 ? "29501" : "29500");
  }
  const auto found = job.tick(23, "rendezvous_stuck");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
}

TEST(rendezvous_stuck, names_the_rank_that_ended_before) {
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) job.start(rank);
  job.begin(0, 14);
  job.event(1, 15, "process_ended", {{"pid", 1001}});
  EXPECT_EQ(job.tick(23, "rendezvous_stuck").at(0).rank, 1);
}

TEST(rendezvous_stuck, waits_for_a_rank_that_computes_and_names_one_that_does_nothing) {
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) job.start(rank);
  job.begin(0, 14);
  job.busy(1, 38);
  EXPECT_TRUE(job.tick(40, "rendezvous_stuck").empty());
  EXPECT_EQ(job.tick(47, "rendezvous_stuck").at(0).rank, 1);
}

TEST(rendezvous_stuck, says_nothing_where_the_others_may_be_on_other_hosts) {
  Job job(4);
  for (const int rank : {0, 1}) job.start(rank, {{"LOCAL_WORLD_SIZE", "2"}});
  for (const int rank : {0, 1}) job.begin(rank, 14);
  EXPECT_TRUE(job.tick(60, "rendezvous_stuck").empty());
}

TEST(rendezvous_stuck, a_task_of_tensorflow_that_was_never_started) {
  Job job(1);
  for (const int index : {0, 1}) {
    Setting setting;
    setting.variables["TF_CONFIG"] = to_text(
        {{"cluster", {{"chief", {"localhost:1000"}}, {"worker", {"localhost:1", "localhost:2"}}}},
         {"task", {{"type", "worker"}, {"index", index}}}});
    name_setting(setting);
    job.event(index, 10, "environment", setting.to_json());
  }
  const auto found = job.tick(40, "rendezvous_stuck");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_NE(found[0].message.find("chief:0 (localhost:1000)"), std::string::npos);
}

TEST(configuration, of_a_healthy_job_has_no_finding) {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) {
    job.start(rank, {{"LOG_FILE", std::to_string(rank)},
                     {"MINE", std::to_string(rank)},
                     {"LOCAL_RANK", std::to_string(rank)}});
    job.begin(rank, 14 + rank);
  }
  for (int rank = 0; rank < 4; ++rank) job.done(rank, 18);
  for (int rank = 0; rank < 4; ++rank) job.facts(rank, "aa", "11112222");
  for (int64_t time_s = 11; time_s < 200; ++time_s) job.tick(time_s, "");
  job.cluster().finish();
  for (const auto& finding : job.all()) {
    EXPECT_EQ(finding.severity, rules::Severity::kInfo) << finding.id << ": " << finding.message;
  }
}

TEST(environment_difference, names_the_rank_the_file_and_its_first_line_that_differs) {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) {
    job.start(rank);
    job.facts(rank, rank == 1 ? "bb" : "aa", rank == 1 ? "111133332222" : "11112222");
  }
  const auto found = job.tick(20, "environment_difference");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].severity, rules::Severity::kError);
  EXPECT_EQ(found[0].where->file, "/p/model.py");
  EXPECT_EQ(found[0].where->line, 2);
}

TEST(environment_difference, names_the_rank_with_another_variable) {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) {
    const std::map<std::string, std::string> odd = {{"NCCL_ALGO", "Ring"}, {"BATCH", "9e8d"}};
    job.start(rank, rank == 2 ? odd : std::map<std::string, std::string>{{"BATCH", "1234"}});
  }
  const auto found = job.tick(20, "environment_difference");
  ASSERT_EQ(found.size(), 2U);
  for (const auto& finding : found) {
    EXPECT_EQ(finding.rank, 2);
    EXPECT_EQ(finding.severity, rules::Severity::kWarning);
    EXPECT_EQ(finding.message.find("9e8d"), std::string::npos);
  }
}

TEST(clock_skew, is_proved_by_a_collective_and_never_on_one_host) {
  store::GroupInfo group;
  group.name = "0";
  const auto run = [&](const std::string& other_host) {
    Job job(2);
    job.event(0, 10, "facts", {{"host", "a"}});
    job.event(1, 10, "facts", {{"host", other_host}});
    for (int rank = 0; rank < 2; ++rank) {
      store::CollectiveRow row;
      row.origin = origin_of(rank, 20 * kSecond);
      row.group = &group;
      row.operation = "all_reduce";
      row.entered_ns = (20 + 3 * rank) * kSecond;
      row.left_ns = row.entered_ns + kSecond;
      job.cluster().on_collective(row);
    }
    return job.tick(30, "clock_skew");
  };
  ASSERT_EQ(run("b").size(), 1U);
  EXPECT_EQ(run("b")[0].value, 2.0);
  EXPECT_TRUE(run("a").empty());
}

TEST(differences, only_what_differs_the_minority_first) {
  std::vector<Subject> subjects(4);
  for (int rank = 0; rank < 4; ++rank) {
    subjects[rank].rank = rank;
    subjects[rank].name = "rank";
    subjects[rank].values = {{"torch", rank == 3 ? "2.1" : "2.2"},
                             {"python", "3.11"},
                             {"variable/RANK", std::to_string(rank)},
                             {"other/_", std::to_string(rank / 2)}};
  }
  const auto all = differences(subjects);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(difference_text(all[0]), "torch: 2.1 on rank 3; 2.2 on ranks 0, 1, 2");
  EXPECT_TRUE(differences({}).empty());
}

}  // namespace
}  // namespace paramedic::cluster
