#include "cluster/lint/settings_book.h"

#include <gtest/gtest.h>

#include "cluster/lint/read_setting.h"
#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Setting rank_of(int rank, int world_size, const std::string& port, int64_t first_s = 10,
                int64_t last_s = 0) {
  Setting setting;
  setting.variables = {{"RANK", std::to_string(rank)},
                       {"WORLD_SIZE", std::to_string(world_size)},
                       {"MASTER_ADDR", "localhost"}};
  if (!port.empty()) setting.variables["MASTER_PORT"] = port;
  setting.first_ns = first_s * kSecond + rank;
  setting.last_ns = last_s * kSecond;
  name_setting(setting);
  return setting;
}

std::vector<size_t> sizes_of(const std::vector<std::vector<Setting>>& jobs) {
  std::vector<size_t> sizes;
  for (const auto& job : jobs) sizes.push_back(job.size());
  return sizes;
}

using Sizes = std::vector<size_t>;

TEST(split_jobs, a_rank_with_another_port_belongs_to_the_job_that_it_completes) {
  EXPECT_EQ(sizes_of(split_jobs(
                {rank_of(0, 3, "29500"), rank_of(1, 3, "29501"), rank_of(2, 3, "29500")})),
            Sizes{3});
}

TEST(split_jobs, complete_jobs_side_by_side_are_several) {
  EXPECT_EQ(sizes_of(split_jobs({rank_of(0, 2, "29500"), rank_of(1, 2, "29500"),
                                 rank_of(0, 2, "29501"), rank_of(1, 2, "29501")})),
            (Sizes{2, 2}));
  // Without a meeting point of their own: file:// in two folders.
  EXPECT_EQ(sizes_of(split_jobs(
                {rank_of(0, 2, ""), rank_of(1, 2, ""), rank_of(0, 2, ""), rank_of(1, 2, "")})),
            (Sizes{2, 2}));
}

TEST(split_jobs, incomplete_jobs_that_were_started_in_turns_are_not_one) {
  EXPECT_EQ(sizes_of(split_jobs({rank_of(0, 2, "29500"), rank_of(0, 2, "29501")})), (Sizes{1, 1}));
}

TEST(split_jobs, jobs_one_after_the_other_on_one_port_are_several) {
  EXPECT_EQ(sizes_of(split_jobs({rank_of(0, 2, "29500", 10, 20), rank_of(1, 2, "29500", 10, 21),
                                 rank_of(0, 2, "29500", 22), rank_of(1, 2, "29500", 22)})),
            (Sizes{2, 2}));
}

store::EventRow event(int32_t rank, int64_t time_ns, const char* kind, const Json& json) {
  store::EventRow row;
  row.origin = origin_of(rank, time_ns);
  row.kind = kind;
  row.json = to_text(json);
  return row;
}

TEST(settings_book, takes_what_a_process_set_for_itself) {
  SettingsBook book;
  const Json begun = {{"state", "begun"},      {"rank", 1},
                      {"world_size", 2},       {"master_addr", "localhost"},
                      {"master_port", "2900"}, {"where", {{"file", "t.py"}, {"line", 7}}}};
  EXPECT_TRUE(book.take(event(1, 10 * kSecond, "rendezvous", begun)));
  ASSERT_EQ(book.jobs().size(), 1U);
  EXPECT_EQ(book.jobs()[0].processes[0].name, "rank 1");
  ASSERT_NE(book.rendezvous(1001), nullptr);
  EXPECT_EQ(book.rendezvous(1001)->endpoint, "localhost:2900");
  EXPECT_EQ(book.rendezvous(1001)->where->line, 7);
}

TEST(settings_book, hostile_events_are_no_trouble) {
  SettingsBook book;
  store::EventRow broken = event(0, 1, "environment", nullptr);
  broken.json = "{";
  EXPECT_FALSE(book.take(broken));
  EXPECT_TRUE(book.take(event(0, 1, "host", Json::array({1, 2}))));
  EXPECT_TRUE(book.take(event(0, 1, "rendezvous", {{"where", 3}, {"rank", "x"}})));
  EXPECT_TRUE(book.take(event(0, 1, "process_ended", nullptr)));
  EXPECT_TRUE(book.jobs().empty());
}

// Rank 2 of four has another port.
TEST(cluster_config, names_the_rank_whose_port_differs_and_a_healthy_job_has_none) {
  for (const bool is_healthy : {true, false}) {
    Found found;
    const auto cluster = Cluster::create(found);
    Moment moment;
    for (int rank = 0; rank < 4; ++rank) {
      const Setting setting = rank_of(rank, 4, rank == 2 && !is_healthy ? "29501" : "29500");
      cluster->on_event(event(rank, 10 * kSecond, "environment", setting.to_json()));
    }
    moment.time_ns = 11 * kSecond;
    cluster->tick(moment);
    EXPECT_TRUE(found.of("cluster_config").empty());  // others may be about to start
    moment.time_ns = 13 * kSecond;
    cluster->tick(moment);
    cluster->finish();
    ASSERT_EQ(found.of("cluster_config").size(), is_healthy ? 0U : 1U);
    if (!is_healthy) {
      EXPECT_EQ(found.of("cluster_config")[0].rank, 2);
    }
  }
}

}  // namespace
}  // namespace paramedic::cluster
