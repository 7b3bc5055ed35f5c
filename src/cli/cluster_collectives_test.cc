#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/test_folder.h"
#include "cli/golden.h"
#include "cli/test_call.h"

namespace paramedic::cli {
namespace {

// A folder of dumps, which stands in answers as "dumps".
class Dumps {
 public:
  void write(const std::string& name, const std::string& text) {
    write_file(folder_.path() + "/" + name, text);
  }

  // Of a rank of four, which has called `calls` ("all_reduce:64") one after another; the last
  // `open` of them have not returned.
  void write_rank(int rank, const std::vector<std::string>& calls, size_t open,
                  const std::string& version = "2.10") {
    Json entries = Json::array();
    for (size_t i = 0; i < calls.size(); ++i) {
      const size_t colon = calls[i].find(':');
      entries.push_back(
          {{"record_id", i},
           {"process_group", {"0", "default_pg"}},
           {"collective_seq_id", i + 1},
           {"is_p2p", false},
           {"profiling_name", "nccl:" + calls[i].substr(0, colon)},
           {"input_sizes", {{std::stoi(calls[i].substr(colon + 1))}}},
           {"input_dtypes", {"Float"}},
           {"state", i + open < calls.size() ? "completed" : "started"},
           {"frames", {{{"filename", "/home/me/train.py"}, {"line", 40 + i}, {"name", "step"}}}}});
    }
    write(fmt::format("rank_{}.json", rank),
          to_text({{"version", version},
                   {"pg_config", {{"0", {{"desc", "default_pg"}, {"ranks", "[0, 1, 2, 3]"}}}}},
                   {"entries", std::move(entries)}}));
  }

  Answer ask(bool json = false) const {
    std::vector<std::string> words{"cluster", "collectives", folder_.path()};
    if (json) words.emplace_back("--json");
    const Answer answer = call(words);
    return {answer.code, named(answer.out), named(answer.err)};
  }

 private:
  [[nodiscard]] std::string named(std::string text) const {
    for (size_t at = text.find(folder_.path()); at != std::string::npos;
         at = text.find(folder_.path(), at)) {
      text.replace(at, folder_.path().size(), "dumps");
    }
    return text;
  }

  TemporaryFolder folder_;
};

const std::vector<std::string> kCalls = {"all_reduce:64", "broadcast:8", "all_reduce:64"};

TEST(ClusterCollectives, a_missing_rank_is_shown_with_what_was_damaged_beside_it) {
  Dumps dumps;
  for (const int rank : {0, 1}) dumps.write_rank(rank, kCalls, 1);
  dumps.write_rank(2, {kCalls[0], kCalls[1]}, 0, "2.4");
  dumps.write("rank_3.json", "{\"entries\": [");
  dumps.write("train.log", "epoch 1\n\x1b[2J");
  const Answer answer = dumps.ask();
  EXPECT_EQ(answer.code, 1) << answer.err;
  expect_golden("collectives-missing.txt", answer.out);
  const Answer json = dumps.ask(true);
  EXPECT_EQ(json.code, 1);
  expect_golden("collectives-missing.json", json.out);
}

TEST(ClusterCollectives, calls_that_differ_are_shown_with_the_odd_rank) {
  Dumps dumps;
  for (const int rank : {0, 1, 3}) dumps.write_rank(rank, kCalls, 1);
  dumps.write_rank(2, {kCalls[0], kCalls[1], "all_reduce:65"}, 1);
  const Answer answer = dumps.ask();
  EXPECT_EQ(answer.code, 1);
  expect_golden("collectives-mismatch.txt", answer.out);
}

TEST(ClusterCollectives, a_healthy_job_ends_with_0) {
  Dumps dumps;
  for (const int rank : {0, 1, 2, 3}) dumps.write_rank(rank, kCalls, 0);
  const Answer answer = dumps.ask();
  EXPECT_EQ(answer.code, 0);
  expect_golden("collectives-healthy.txt", answer.out);
}

TEST(ClusterCollectives, a_folder_without_a_dump_ends_with_2_and_says_how_to_make_one) {
  Dumps dumps;
  dumps.write("train.log", "epoch 1\n");
  const Answer answer = dumps.ask();
  EXPECT_EQ(answer.code, 2);
  EXPECT_EQ(answer.out, "");
  EXPECT_NE(answer.err.find("TORCH_FR_BUFFER_SIZE"), std::string::npos) << answer.err;
}

}  // namespace
}  // namespace paramedic::cli
