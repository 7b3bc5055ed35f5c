// Policies of tf.data, by events made by hand: each mistake, and what looks like one.

#include "cluster/auto_shard.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

Json given(const char* policy, const char* source, int count) {
  return {{"number", 0},
          {"workers", {0, 1}},
          {"policy", policy},
          {"source", source},
          {"print", "aa"},
          {"count", count},
          {"where", {{"file", "/job/train.py"}, {"line", 30}, {"function", "main"}}}};
}

std::vector<rules::Finding> told(const Json& first, const Json& second, const std::string& id) {
  Found found;
  const auto cluster = Cluster::create(found);
  int32_t rank = 0;
  for (const Json& json : {first, second}) {
    store::EventRow row;
    row.origin = origin_of(rank++, 1'000'000'000);
    row.kind = "distributed_dataset";
    row.json = to_text(json);
    cluster->on_event(row);
  }
  cluster->finish();
  EXPECT_EQ(found.all().size(), found.of(id).size());
  return found.of(id);
}

TEST(auto_shard, off_with_the_same_data_on_all_workers_is_an_overlap) {
  const Json off = given("OFF", "tensors", 512);
  const auto found = told(off, off, "shard_overlap");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, rules::Severity::kError);
  EXPECT_EQ(found[0].where->line, 30);
  EXPECT_EQ(found[0].message,
            "ranks 0, 1 each read all 512 samples of one data set: its auto_shard_policy is OFF, "
            "and nothing else shares it out");
}

TEST(auto_shard, off_is_right_where_data_differs_or_is_shared_out_by_hand) {
  const Json off = given("OFF", "tensors", 512);
  Json other = off;
  other["print"] = "bb";
  EXPECT_TRUE(told(off, other, "shard_overlap").empty());
  Json sharded = off;
  sharded["sharded"] = true;
  EXPECT_TRUE(told(sharded, sharded, "shard_overlap").empty());
  Json unknown = off;
  unknown["print"] = "";
  EXPECT_TRUE(told(unknown, unknown, "shard_overlap").empty());
  const Json automatic = given("AUTO", "tensors", 512);
  EXPECT_TRUE(told(automatic, automatic, "shard_overlap").empty());
}

TEST(auto_shard, off_with_an_order_of_its_own_on_each_worker_may_be_meant) {
  Json off = given("OFF", "files", 8);
  off["shuffled"] = true;
  const auto found = told(off, off, "shard_overlap");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, rules::Severity::kWarning);
}

TEST(auto_shard, by_file_with_fewer_files_than_workers_leaves_one_without_data) {
  const Json one = given("FILE", "files", 1);
  const auto found = told(one, one, "shard_imbalance");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].message,
            "auto_shard_policy FILE has 1 file for 2 workers: 1 of them would have no data");
  const Json two = given("FILE", "files", 2);
  EXPECT_TRUE(told(two, two, "shard_imbalance").empty());
}

TEST(auto_shard, what_is_no_such_event_is_left_alone) {
  AutoShard shards;
  store::EventRow row;
  row.kind = "distributed_dataset";
  for (const char* text : {"", "[]", "{", R"({"number": 0})", R"({"number": 0, "workers": 3})",
                           R"({"number": 0, "workers": ["a", "b"]})"}) {
    row.json = text;
    EXPECT_FALSE(shards.take(row));
  }
}

}  // namespace
}  // namespace paramedic::cluster
