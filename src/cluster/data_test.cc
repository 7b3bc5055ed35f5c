// What the ranks read, by rows made by hand: each fault, and each healthy job that looks like one.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/cluster.h"
#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kSamplerLine = 24;
constexpr int kLoaderLine = 25;
constexpr int kDatasetLine = 23;

std::string base64_of(const std::vector<uint8_t>& bytes) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8U | (i + k < bytes.size() ? bytes[i + k] : 0U);
    for (size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : digits[word >> (18 - 6 * k) & 63U];
    }
  }
  return text;
}

using Ids = std::vector<int64_t>;

Json set_of(int64_t size, const Ids& ids) {
  std::vector<uint8_t> bits(static_cast<size_t>((size + 7) / 8), 0);
  for (const int64_t id : ids) {
    uint8_t& byte = bits[static_cast<size_t>(id / 8)];
    byte = static_cast<uint8_t>(byte | 128U >> (id % 8));
  }
  return {{"size", size}, {"modulus", 1}, {"read", ids.size()}, {"bits", base64_of(bits)}};
}

Json place(int line) { return {{"file", "/job/train.py"}, {"line", line}, {"function", "main"}}; }

// What a rank of a plain DistributedSampler job tells; a test changes what it is about.
struct Told {
  explicit Told(int32_t rank, int32_t world) {
    std::vector<int32_t> ranks(static_cast<size_t>(world));
    std::iota(ranks.begin(), ranks.end(), 0);
    begun = {{"loader", "train.py:25"},
             {"epoch", 0},
             {"loop", "plain"},
             {"where", place(kLoaderLine)},
             {"batches", 0},
             {"batch_size", 20},
             {"batches_a_step", 1},
             {"drop_last", false},
             {"sampler",
              {{"class", "DistributedSampler"},
               {"replicas", world},
               {"rank", rank},
               {"shuffle", true},
               {"epoch", 0},
               {"drop_last", false},
               {"replacement", false},
               {"part", false},
               {"own", false},
               {"where", place(kSamplerLine)}}},
             {"dataset",
              {{"class", "TensorDataset"},
               {"length", 3200},
               {"print", "aa"},
               {"where", place(kDatasetLine)}}},
             {"root", nullptr},
             {"sharing", {{"ranks", ranks}, {"join", false}}}};
    for (int64_t id = rank; id < size; id += world) ids.push_back(id);
  }

  void finish_setting() {
    const auto count = static_cast<int64_t>(ids.size());
    if (begun["batches"] == 0) begun["batches"] = (count + 19) / 20;
    read = {{"loader", begun["loader"]},
            {"epoch", begun["epoch"]},
            {"exhausted", exhausted},
            {"over", over},
            {"batches", batches.value_or((count + 19) / 20)},
            {"samples", count},
            {"order", order},
            {"ids", has_ids ? set_of(size, ids) : Json(nullptr)},
            {"root_ids", root_ids.empty() ? Json(nullptr) : set_of(size, root_ids)},
            {"pairs", pairs},
            {"contents", contents_json()}};
  }

  [[nodiscard]] Json contents_json() const {
    std::vector<uint8_t> bytes;
    for (const uint32_t one : contents) {
      for (unsigned shift = 0; shift < 32; shift += 8) {
        bytes.push_back(static_cast<uint8_t>(one >> shift));
      }
    }
    return {{"read", contents.size()}, {"hashes", base64_of(bytes)}};
  }

  int64_t size = 3200;
  Json begun;
  Json read;
  Ids ids;
  Ids root_ids;
  bool has_ids = true;
  bool exhausted = true;
  bool over = true;
  bool reads = true;
  std::optional<int64_t> batches;
  std::string order = "o";
  Json pairs = Json::array();
  std::vector<uint32_t> contents;
};

class Ranks {
 public:
  explicit Ranks(int32_t world = 4) : world_(world), cluster_(Cluster::create(found)) { tick(0); }

  void tick(int64_t time_ns) {
    Moment moment;
    moment.time_ns = time_ns;
    for (int32_t rank = 0; rank < world_; ++rank) {
      moment.processes.push_back(process_of(rank, world_));
    }
    cluster_->tick(moment);
  }

  void epoch(int64_t number, const std::function<void(int32_t, Told&)>& change) {
    std::vector<Told> all;
    for (int32_t rank = 0; rank < world_; ++rank) {
      Told told(rank, world_);
      told.begun["epoch"] = number;
      told.begun["sampler"]["epoch"] = number;
      told.order = fmt::format("o{}", number);
      change(rank, told);
      told.finish_setting();
      all.push_back(told);
      send(rank, "epoch_begun", told.begun);
    }
    for (int32_t rank = 0; rank < world_; ++rank) {
      const Told& told = all[static_cast<size_t>(rank)];
      if (told.reads) send(rank, "epoch_read", told.read);
    }
  }

  void send(int32_t rank, const std::string& kind, const Json& json) {
    store::EventRow row;
    row.origin = origin_of(rank, kSecond);
    row.kind = kind;
    row.json = to_text(json);
    cluster_->on_event(row);
  }

  std::vector<std::string> ids() {
    cluster_->finish();
    std::vector<std::string> ids;
    for (const auto& finding : found.all()) {
      if (finding.severity != rules::Severity::kInfo) ids.push_back(finding.id);
    }
    return ids;
  }

  Cluster& cluster() { return *cluster_; }

  Found found;

 private:
  int32_t world_;
  std::unique_ptr<Cluster> cluster_;
};

using Names = std::vector<std::string>;

void as_it_is(int32_t /*rank*/, Told& /*told*/) {}

TEST(shards, a_distributed_sampler_with_an_epoch_that_moves_on_is_quiet) {
  Ranks ranks;
  ranks.epoch(0, as_it_is);
  ranks.epoch(1, as_it_is);
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, all_ranks_with_the_number_of_rank_0_are_told_at_the_line_of_the_sampler) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t, Told& told) {
    told.begun["sampler"]["rank"] = 0;
    told.ids = Told(0, 4).ids;
  });
  ASSERT_EQ(ranks.ids(), Names{"shard_overlap"});
  const auto finding = ranks.found.of("shard_overlap").at(0);
  EXPECT_EQ(finding.rank, std::nullopt);
  EXPECT_EQ(finding.where->line, kSamplerLine);
  EXPECT_EQ(finding.severity, rules::Severity::kError);
}

TEST(shard_overlap, the_only_rank_with_a_wrong_number_is_named) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    if (rank != 3) return;
    told.begun["sampler"]["rank"] = 1;
    told.ids = Told(1, 4).ids;
  });
  ASSERT_EQ(ranks.ids(), Names{"shard_overlap"});
  EXPECT_EQ(ranks.found.of("shard_overlap").at(0).rank, 3);
}

TEST(shard_overlap, a_loader_without_a_sampler_for_ranks_is_told_at_its_own_line) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told.begun["sampler"] = {{"class", "RandomSampler"}, {"shuffle", true}};
    told.ids.resize(3200);
    std::iota(told.ids.begin(), told.ids.end(), 0);
    told.order = fmt::format("by {}", rank);
  });
  ASSERT_EQ(ranks.ids(), Names{"shard_overlap"});
  EXPECT_EQ(ranks.found.of("shard_overlap").at(0).where->line, kLoaderLine);
}

TEST(shard_overlap, the_samples_that_fill_up_the_last_round_are_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told.size = 3197;
    told.begun["dataset"]["length"] = 3197;
    std::erase_if(told.ids, [](int64_t id) { return id >= 3197; });
    if (rank > 0) told.ids.push_back(rank - 1);
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, drawing_with_replacement_is_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t, Told& told) {
    told.begun["sampler"] = {{"class", "WeightedRandomSampler"}, {"replacement", true}};
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, equal_ids_of_different_data_sets_are_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told.begun["sampler"] = {{"class", "RandomSampler"}, {"shuffle", true}};
    told.begun["dataset"]["print"] = fmt::format("part {}", rank);
    told.ids = Told(0, 4).ids;
    for (uint32_t i = 0; i < 800; ++i) told.contents.push_back(i * 4 + static_cast<uint32_t>(rank));
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, data_sets_that_give_each_rank_other_samples_are_legal_though_they_look_alike) {
  Ranks ranks;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    ranks.epoch(epoch, [](int32_t rank, Told& told) {
      told.ids = Told(0, 4).ids;
      for (int id = 0; id < 20; ++id) told.pairs.push_back({id * 4, 1000 * rank + id});
    });
  }
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, augmentation_does_not_hide_it) {
  Ranks ranks;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    ranks.epoch(epoch, [&](int32_t rank, Told& told) {
      told.begun["sampler"]["rank"] = 0;
      told.ids = Told(0, 4).ids;
      for (int id = 0; id < 20; ++id) {
        told.pairs.push_back({id * 4, 100'000 * epoch + 1000 * rank + id});
      }
    });
  }
  EXPECT_EQ(ranks.ids(), Names{"shard_overlap"});
}

TEST(shard_overlap, a_stream_that_gives_two_ranks_the_same_samples_is_known_by_their_content) {
  Ranks ranks(2);
  ranks.epoch(0, [](int32_t, Told& told) {
    told.has_ids = false;
    told.order.clear();
    told.begun["sampler"] = {{"class", "_InfiniteConstantSampler"}};
    for (uint32_t i = 0; i < 500; ++i) told.contents.push_back(i * 977);
  });
  ASSERT_EQ(ranks.ids(), Names{"shard_overlap"});
  EXPECT_EQ(ranks.found.of("shard_overlap").at(0).where->line, kDatasetLine);
}

TEST(shard_overlap, samples_that_repeat_within_a_rank_say_nothing_by_their_content) {
  Ranks ranks(2);
  ranks.epoch(0, [](int32_t, Told& told) {
    told.has_ids = false;
    told.order.clear();
    for (uint32_t i = 0; i < 500; ++i) told.contents.push_back(i % 100);
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, ranks_that_share_no_gradients_may_read_the_same) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t, Told& told) {
    told.begun["sampler"] = {{"class", "RandomSampler"}, {"shuffle", true}};
    told.begun["sharing"] = nullptr;
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, ranks_of_one_tensor_parallel_group_read_the_same_rightly) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told = Told(rank / 2, 2);
    told.begun["sharing"] = {{"ranks", rank % 2 == 0 ? Ids{0, 2} : Ids{1, 3}}};
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, samplers_that_come_out_even_over_half_of_the_ranks_are_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told = Told(rank / 2, 2);
    told.begun["sharing"] = nullptr;
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_overlap, subsets_of_one_data_set_are_compared_by_the_ids_underneath) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told.begun["sampler"] = {{"class", "RandomSampler"}, {"shuffle", true}};
    told.begun["dataset"]["print"] = fmt::format("part {}", rank);
    told.begun["root"] = {{"class", "TensorDataset"}, {"length", 3200}, {"print", "aa"}};
    told.ids = Told(0, 4).ids;
    for (int64_t id = rank * 800 - (rank > 0 ? 100 : 0); id < (rank + 1) * 800; ++id) {
      told.root_ids.push_back(id);
    }
  });
  ASSERT_EQ(ranks.ids(), Names{"shard_overlap"});
  EXPECT_EQ(ranks.found.of("shard_overlap").at(0).where->line, kDatasetLine);
}

TEST(shard_missing, a_sampler_that_divides_by_more_ranks_than_there_are_leaves_samples_out) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told.ids = Told(rank, 8).ids;
    told.begun["sampler"]["replicas"] = 8;
  });
  ASSERT_EQ(ranks.ids(), Names{"shard_missing"});
  const auto finding = ranks.found.of("shard_missing").at(0);
  EXPECT_DOUBLE_EQ(*finding.value, 0.5);
  EXPECT_EQ(finding.where->line, kSamplerLine);
  EXPECT_EQ(finding.rank, std::nullopt);
}

TEST(shard_missing, the_tail_that_drop_last_leaves_out_is_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t, Told& told) {
    told.begun["drop_last"] = true;
    told.begun["sampler"]["drop_last"] = true;
    told.ids.resize(785);
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_missing, a_loop_that_is_left_early_is_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t, Told& told) {
    told.exhausted = false;
    told.ids.resize(400);
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_missing, a_sampler_that_draws_from_a_list_of_its_own_is_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t, Told& told) {
    told.begun["sampler"]["part"] = true;
    told.ids.resize(400);
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(shard_imbalance, a_rank_that_reads_three_times_as_much_is_named) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told.begun["sampler"] = {{"class", "RandomSampler"}, {"shuffle", true}};
    told.begun["dataset"]["print"] = fmt::format("part {}", rank);
    if (rank != 2) told.ids.resize(260);
    told.begun["batches"] = 40;
  });
  ASSERT_EQ(ranks.ids(), Names{"shard_imbalance"});
  const auto finding = ranks.found.of("shard_imbalance").at(0);
  EXPECT_EQ(finding.rank, 2);
  EXPECT_EQ(finding.where->line, kDatasetLine);
}

TEST(shard_imbalance, shards_of_files_that_differ_by_a_third_are_quiet) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told.begun["sampler"] = {{"class", "RandomSampler"}, {"shuffle", true}};
    told.begun["dataset"]["print"] = fmt::format("part {}", rank);
    if (rank != 2) told.ids.resize(600);
    told.begun["batches"] = 40;
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(epoch_order_repeats, the_same_order_twice_is_told_at_the_line_of_the_sampler) {
  Ranks ranks;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    ranks.epoch(epoch, [](int32_t, Told& told) {
      told.begun["sampler"]["epoch"] = 0;
      told.order = "same";
    });
  }
  ASSERT_EQ(ranks.ids(), Names{"epoch_order_repeats"});
  const auto finding = ranks.found.of("epoch_order_repeats").at(0);
  EXPECT_EQ(finding.where->line, kSamplerLine);
  EXPECT_EQ(finding.rank, std::nullopt);
}

TEST(epoch_order_repeats, the_only_rank_that_repeats_is_named) {
  Ranks ranks;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    ranks.epoch(epoch, [](int32_t rank, Told& told) {
      if (rank == 1) told.order = "same";
    });
  }
  ASSERT_EQ(ranks.ids(), Names{"epoch_order_repeats"});
  EXPECT_EQ(ranks.found.of("epoch_order_repeats").at(0).rank, 1);
}

TEST(epoch_order_repeats, an_order_that_is_not_shuffled_is_quiet) {
  Ranks ranks;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    ranks.epoch(epoch, [](int32_t, Told& told) {
      told.begun["sampler"]["shuffle"] = false;
      told.order = "same";
    });
  }
  EXPECT_EQ(ranks.ids(), Names{});
}

void last_has_fewer(int32_t rank, Told& told) {
  told.begun["sampler"] = {{"class", "RandomSampler"}, {"shuffle", true}};
  told.begun["dataset"]["print"] = fmt::format("part {}", rank);
  told.begun["batches"] = rank == 3 ? 38 : 40;
  told.reads = false;
}

TEST(uneven_batches, a_rank_with_fewer_batches_is_named_before_the_others_wait) {
  Ranks ranks;
  ranks.epoch(0, last_has_fewer);
  ASSERT_EQ(ranks.ids(), Names{"uneven_batches"});
  const auto finding = ranks.found.of("uneven_batches").at(0);
  EXPECT_EQ(finding.rank, 3);
  EXPECT_EQ(finding.value, 2);
  EXPECT_EQ(finding.where->line, kDatasetLine);
}

TEST(uneven_batches, under_join_it_is_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    last_has_fewer(rank, told);
    told.begun["sharing"]["join"] = true;
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(uneven_batches, batches_that_fill_no_further_step_are_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    last_has_fewer(rank, told);
    told.begun["batches"] = rank == 3 ? 40 : 42;
    told.begun["batches_a_step"] = 4;
  });
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(uneven_batches, a_loop_that_may_be_left_early_is_told_only_once_a_rank_has_run_out) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    last_has_fewer(rank, told);
    told.begun["loop"] = "may_leave";
    told.batches = 38;
    told.reads = rank == 3;
  });
  ranks.tick(2 * kSecond);
  EXPECT_TRUE(ranks.found.all().empty());
  ranks.tick(20 * kSecond);
  ASSERT_EQ(ranks.ids(), Names{"uneven_batches"});
  EXPECT_EQ(ranks.found.of("uneven_batches").at(0).rank, 3);
}

TEST(uneven_batches, a_loop_that_all_ranks_leave_after_as_many_batches_is_legal) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    last_has_fewer(rank, told);
    told.begun["loop"] = "may_leave";
    told.batches = 38;
    told.reads = rank != 2;
    told.exhausted = rank == 3;
  });
  ranks.tick(60 * kSecond);
  EXPECT_EQ(ranks.ids(), Names{});
}

// Ranks that reduce something of a parameter's size every so many steps.
void average_by_hand(Ranks& ranks, int64_t steps_between) {
  store::GroupInfo group;
  group.ranks = {0, 1, 2, 3};
  for (int32_t rank = 0; rank < 4; ++rank) {
    store::ModelRow parameter;
    parameter.origin = origin_of(rank, kSecond);
    parameter.kind = "parameter";
    parameter.detail = R"({"shape": [300, 50]})";
    ranks.cluster().on_model(parameter);
    for (int64_t i = 0; i < 5; ++i) {
      store::CollectiveRow row;
      row.origin = origin_of(rank, kSecond, i * steps_between);
      row.group = &group;
      row.sequence = i;
      row.operation = "all_reduce";
      row.sizes = {300, 50};
      row.left_ns = kSecond;
      ranks.cluster().on_collective(row);
    }
  }
  ranks.epoch(0, [](int32_t rank, Told& told) {
    last_has_fewer(rank, told);
    told.begun["sharing"] = nullptr;
  });
}

TEST(uneven_batches, ranks_that_average_by_hand_after_each_batch_wait_too) {
  Ranks ranks;
  average_by_hand(ranks, 1);
  EXPECT_EQ(ranks.ids(), Names{"uneven_batches"});
}

TEST(uneven_batches, ranks_that_average_their_weights_once_an_epoch_need_no_equal_numbers) {
  Ranks ranks;
  average_by_hand(ranks, 40);
  EXPECT_EQ(ranks.ids(), Names{});
}

TEST(uneven_batches, a_stream_that_goes_on_while_others_have_ended_is_named) {
  Ranks ranks;
  ranks.epoch(0, [](int32_t rank, Told& told) {
    told.begun["batches"] = nullptr;
    told.has_ids = false;
    told.reads = rank != 1;
  });
  ranks.tick(20 * kSecond);
  ASSERT_EQ(ranks.ids(), Names{"uneven_batches"});
  EXPECT_EQ(ranks.found.of("uneven_batches").at(0).rank, 1);
}

TEST(shards, events_that_make_no_sense_are_passed_over) {
  Ranks ranks(2);
  ranks.send(0, "epoch_begun", {{"loader", 3}, {"sharing", {{"ranks", "all"}}}});
  ranks.send(1, "epoch_begun", Json::array());
  ranks.send(0, "epoch_read", {{"ids", {{"size", -1}, {"modulus", 0}, {"bits", 7}}}});
  ranks.send(1, "epoch_read", {{"pairs", {{1}, {2, "x"}}}, {"ids", {{"size", 1e300}}}});
  EXPECT_EQ(ranks.ids(), Names{});
}

}  // namespace
}  // namespace paramedic::cluster
