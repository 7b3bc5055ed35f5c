#include "supervise/job_settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "supervise/host_facts.h"
#include "supervise/job_harness.h"

namespace paramedic::supervise {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class NoNames : public NameLookup {
 public:
  std::optional<std::vector<std::string>> addresses(const std::string&) override {
    return std::vector<std::string>();
  }
};

class Events : public store::RowSink {
 public:
  void on_event(const store::EventRow& row) override {
    const auto json = parse_json(row.json, "event");
    ASSERT_TRUE(json.ok());
    by_kind[row.kind].push_back(*json);
  }
  std::map<std::string, std::vector<Json>> by_kind;
};

// A small /proc in a folder.
class JobSettingsTest : public testing::Test {
 protected:
  void process(int pid, int parent, const std::string& command, const std::string& variables) {
    const std::string folder = proc() + "/" + std::to_string(pid);
    write_file(folder + "/stat", std::to_string(pid) + " (x) S " + std::to_string(parent) +
                                     " 100 1 0 -1 4194304 1 2 3 4 5 6 0 0 20 0 1 0 5000 1 2 3\n");
    write_file(folder + "/cmdline", command);
    write_file(folder + "/environ", variables);
    write_file(proc() + "/loadavg", "0.1 0.1 0.1 1/9 " + std::to_string(pid) + "\n");
  }
  [[nodiscard]] std::string proc() const { return folder_.path() + "/proc"; }
  [[nodiscard]] std::string path() const { return folder_.path(); }
  void look(int64_t time_s) { settings_.look(time_s * kSecond, 100, events_); }

  TemporaryFolder folder_;
  Events events_;
  JobSettings settings_{proc(), "a", std::make_unique<NoNames>()};
};

std::string words(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& word : all) text += word + '\0';
  return text;
}

TEST_F(JobSettingsTest, a_rank_is_told_once_with_the_line_that_starts_it_but_not_its_workers) {
  write_file(path() + "/start.sh", "export MASTER_ADDR=nowhere\nRANK=1 python train.py &\n");
  process(100, 1, words({"bash", path() + "/start.sh"}), words({"PATH=/bin"}));
  process(101, 100, words({"/usr/bin/python3", "train.py"}),
          words({"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=nowhere", "TOKEN=hidden"}));
  process(102, 101, words({"/usr/bin/python3", "train.py"}), words({"RANK=1", "WORLD_SIZE=2"}));
  look(10);
  look(11);
  ASSERT_EQ(events_.by_kind["environment"].size(), 1U);
  const auto setting = cluster::Setting::from_json(events_.by_kind["environment"][0]);
  EXPECT_EQ(setting.name, "rank 1");
  EXPECT_EQ(setting.pid, 101);
  ASSERT_EQ(setting.assignments.size(), 2U);
  EXPECT_EQ(setting.assignments[1].line, 2);
  EXPECT_EQ(to_text(events_.by_kind["environment"][0]).find("hidden"), std::string::npos);
  EXPECT_TRUE(
      cluster::HostFacts::from_json(events_.by_kind["host"].back()).names.contains("nowhere"));
}

TEST_F(JobSettingsTest, a_program_that_carries_a_rank_and_starts_it_is_that_rank) {
  const std::string variables = words({"RANK=1", "WORLD_SIZE=2"});
  process(100, 1, words({"bash", path() + "/start.sh"}), words({"PATH=/bin"}));
  process(1000, 999, words({"python", "train.py"}), variables);
  process(999, 100, words({"python", "wrapper.py"}), variables);
  look(10);
  ASSERT_EQ(events_.by_kind["environment"].size(), 1U);
  EXPECT_EQ(cluster::Setting::from_json(events_.by_kind["environment"][0]).pid, 999);
}

TEST_F(JobSettingsTest, the_end_of_a_rank_is_told) {
  process(100, 1, words({"python", "train.py"}), words({"RANK=0", "WORLD_SIZE=2"}));
  look(10);
  ASSERT_TRUE(posix_file_system().remove(proc() + "/100/stat").ok());
  look(11);
  look(12);
  EXPECT_EQ(events_.by_kind["process_ended"].size(), 1U);
}

TEST_F(JobSettingsTest, a_job_of_one_process_tells_nothing) {
  process(100, 1, words({"python", "train.py"}), words({"HOME=/root"}));
  look(10);
  look(20);
  EXPECT_TRUE(events_.by_kind.empty());
}

TEST_F(JobSettingsTest, a_launcher_is_told_with_its_options) {
  process(100, 1,
          words({"python", "/bin/torchrun", "--nproc-per-node", "2", "train.py", "--key", "x"}),
          words({"HOME=/root"}));
  look(10);
  ASSERT_EQ(events_.by_kind["environment"].size(), 1U);
  const auto setting = cluster::Setting::from_json(events_.by_kind["environment"][0]);
  EXPECT_EQ(setting.launch, (std::vector<std::string>{"/bin/torchrun", "--nproc-per-node", "2"}));
}

TEST(host_facts, of_this_machine_has_its_loopback_and_its_open_ports) {
  const cluster::HostFacts facts = read_host_facts("here");
  EXPECT_GT(facts.cores, 0);
  ASSERT_NE(facts.interface("lo"), nullptr);
  EXPECT_EQ(resolve_name("127.0.0.1"), std::vector<std::string>{"127.0.0.1"});
}

TEST(host_facts, finds_listeners_and_nothing_else) {
  TemporaryFolder folder;
  write_file(
      folder.path() + "/net/tcp",
      "  sl  local_address rem_address   st\n"
      "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 777 1\n"
      "   1: 0100007F:733D 0100007F:1111 01 00000000:00000000 00:00000000 00000000 0 0 778 1\n"
      "   2: rubbish\n");
  const std::map<int32_t, uint64_t> expected = {{29500, 777}};
  EXPECT_EQ(listening_ports(folder.path()), expected);
}

}  // namespace
}  // namespace paramedic::supervise
