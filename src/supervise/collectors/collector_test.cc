#include "supervise/collectors/collector.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "supervise/collectors/nvml.h"
#include "supervise/fd.h"
#include "supervise/job_harness.h"

namespace paramedic::supervise {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

// The last value of each "name" or "pid name".
class Metrics : public store::RowSink {
 public:
  void on_metric(const store::MetricRow& row) override {
    values[row.pid == 0 ? row.name : std::to_string(row.pid) + " " + row.name] = row.value;
  }
  std::map<std::string, double> values;
};

// A line of /proc/PID/stat with a name that tries to confuse the parser.
std::string stat_line(int pid, int parent, int group, int user_ticks, int threads, int pages) {
  return std::to_string(pid) + " (py) thon (3) S " + std::to_string(parent) + " " +
         std::to_string(group) + " 1 0 -1 4194304 1 2 3 4 " + std::to_string(user_ticks) +
         " 10 0 0 20 0 " + std::to_string(threads) + " 0 5000 123456789 " + std::to_string(pages) +
         " 18446744073709551615 1 1\n";
}

class CollectorTest : public testing::Test {
 protected:
  CollectorRoots roots() const { return {folder_.path() + "/proc", folder_.path() + "/cgroup"}; }
  void proc(const std::string& name, const std::string& text) {
    write_file(folder_.path() + "/proc/" + name, text);
  }
  void cgroup(const std::string& name, const std::string& text) {
    write_file(folder_.path() + "/cgroup/" + name, text);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(CollectorTest, process_tree_has_descendants_and_orphans_of_the_group_but_no_strangers) {
  proc("100/stat", stat_line(100, 1, 100, 50, 3, 7));
  proc("101/stat", stat_line(101, 100, 101, 0, 1, 1));
  proc("102/stat", stat_line(102, 101, 102, 0, 1, 1));
  proc("103/stat", stat_line(103, 1, 100, 0, 1, 1));
  proc("104/stat", stat_line(104, 1, 104, 0, 1, 1));
  proc("self/stat", "not a number");
  Metrics metrics;
  make_process_tree_collector(roots())->sample(kSecondNs, 100, metrics);
  EXPECT_EQ(metrics.values["100 threads"], 3);
  EXPECT_EQ(metrics.values["100 rss_bytes"], 7.0 * static_cast<double>(::sysconf(_SC_PAGESIZE)));
  EXPECT_TRUE(metrics.values.contains("101 threads"));
  EXPECT_TRUE(metrics.values.contains("102 threads"));
  EXPECT_TRUE(metrics.values.contains("103 threads"));
  EXPECT_FALSE(metrics.values.contains("104 threads"));
  EXPECT_FALSE(metrics.values.contains("100 cpu_percent"));  // a rate needs two samples
  EXPECT_FALSE(metrics.values.contains("100 io_read_bytes"));
}

TEST_F(CollectorTest, cpu_percent_is_the_share_of_one_core_since_the_last_sample) {
  const auto collector = make_process_tree_collector(roots());
  const int ticks_a_second = static_cast<int>(::sysconf(_SC_CLK_TCK));
  Metrics metrics;
  proc("100/stat", stat_line(100, 1, 100, 0, 1, 1));
  proc("100/io", "rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\n");
  collector->sample(kSecondNs, 100, metrics);
  proc("100/stat", stat_line(100, 1, 100, 3 * ticks_a_second, 1, 1));
  collector->sample(3 * kSecondNs, 100, metrics);
  EXPECT_DOUBLE_EQ(metrics.values["100 cpu_percent"], 150);
  EXPECT_EQ(metrics.values["100 io_read_bytes"], 4096);
  EXPECT_EQ(metrics.values["100 io_write_bytes"], 8192);
}

TEST_F(CollectorTest, cgroup_version_2_gives_usage_limit_and_kills) {
  proc("100/cgroup", "0::/job\n");
  cgroup("job/memory.current", "1000\n");
  cgroup("job/memory.max", "2000\n");
  cgroup("job/memory.events", "low 0\noom 5\noom_kill 2\noom_group_kill 1\n");
  Metrics metrics;
  make_cgroup_collector(roots())->sample(kSecondNs, 100, metrics);
  EXPECT_EQ(metrics.values["cgroup_memory_bytes"], 1000);
  EXPECT_EQ(metrics.values["cgroup_memory_limit_bytes"], 2000);
  EXPECT_EQ(metrics.values["cgroup_oom_kills"], 2);
}

TEST_F(CollectorTest, cgroup_version_1_is_read_where_version_2_has_no_memory) {
  proc("100/cgroup", "4:memory:/job\n1:cpu:/\n0::/\n");
  cgroup("memory/job/memory.usage_in_bytes", "1000\n");
  cgroup("memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  cgroup("memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  Metrics metrics;
  make_cgroup_collector(roots())->sample(kSecondNs, 100, metrics);
  EXPECT_EQ(metrics.values["cgroup_memory_bytes"], 1000);
  EXPECT_FALSE(metrics.values.contains("cgroup_memory_limit_bytes"));  // that number means none
  EXPECT_EQ(metrics.values["cgroup_oom_kills"], 3);
}

TEST_F(CollectorTest, a_process_that_its_group_keeps_off_the_cores_is_told_by_both_versions) {
  proc("100/stat", stat_line(100, 1, 100, 0, 1, 1));
  proc("100/cgroup", "3:cpu,cpuacct:/\n0::/\n");
  proc("101/stat", stat_line(101, 100, 100, 0, 1, 1));
  proc("101/cgroup", "3:cpu:/slow\n0::/\n");
  proc("102/stat", stat_line(102, 100, 100, 0, 1, 1));
  proc("102/cgroup", "0::/job\n");
  cgroup("cpu/slow/cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 2500000000\n");
  cgroup("job/cpu.stat", "usage_usec 7\nnr_throttled 3\nthrottled_usec 1500000\n");
  Metrics metrics;
  make_cgroup_collector(roots())->sample(kSecondNs, 100, metrics);
  EXPECT_FALSE(metrics.values.contains("100 throttled_ms"));
  EXPECT_EQ(metrics.values["101 throttled_ms"], 2500);
  EXPECT_EQ(metrics.values["102 throttled_ms"], 1500);
}

TEST_F(CollectorTest, cgroup_mounted_as_the_root_of_a_container_is_found) {
  proc("100/cgroup", "0::/kubepods/pod1/container2\n");
  cgroup("memory.current", "77\n");
  cgroup("memory.max", "max\n");
  Metrics metrics;
  make_cgroup_collector(roots())->sample(kSecondNs, 100, metrics);
  EXPECT_EQ(metrics.values["cgroup_memory_bytes"], 77);
  EXPECT_FALSE(metrics.values.contains("cgroup_memory_limit_bytes"));
}

TEST_F(CollectorTest, machine_gives_busy_and_waiting_shares_and_memory) {
  const auto collector = make_machine_collector(roots());
  Metrics metrics;
  proc("meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n");
  proc("stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\n");
  collector->sample(kSecondNs, 100, metrics);
  EXPECT_FALSE(metrics.values.contains("machine_cpu_percent"));
  proc("stat", "cpu  130 0 110 740 120 0 0 0 0 0\ncpu0 1 1 1 1\n");
  collector->sample(2 * kSecondNs, 100, metrics);
  EXPECT_DOUBLE_EQ(metrics.values["machine_cpu_percent"], 40);
  EXPECT_EQ(metrics.values["machine_cores"], 1);
  EXPECT_DOUBLE_EQ(metrics.values["machine_iowait_percent"], 20);
  EXPECT_EQ(metrics.values["machine_memory_bytes"], 1000 * 1024);
  EXPECT_EQ(metrics.values["machine_memory_available_bytes"], 400 * 1024);
}

TEST_F(CollectorTest, no_collector_needs_anything_to_be_there) {
  proc("100/stat", "100 (cut off");
  proc("100/cgroup", "no colon\n:\n");
  proc("stat", "cpu 1 2\n");
  proc("meminfo", "MemTotal:\n");
  Metrics metrics;
  for (const auto& collector : make_collectors(roots())) {
    collector->sample(kSecondNs, 100, metrics);
    collector->sample(2 * kSecondNs, 100, metrics);
  }
  for (const auto& [name, value] : metrics.values) {
    EXPECT_TRUE(name.starts_with("gpu_")) << name;  // of this machine, if it has one
  }
}

TEST(collector, every_collector_reads_the_real_machine) {
  Metrics metrics;
  for (const auto& collector : make_collectors({})) {
    collector->sample(kSecondNs, ::getpid(), metrics);
  }
  EXPECT_GT(metrics.values[std::to_string(::getpid()) + " rss_bytes"], 0);
  EXPECT_GT(metrics.values["machine_memory_bytes"], 0);
}

// A connection to itself that has carried enough to count.
class Connected {
 public:
  Connected() {
    const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), any, bytes), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), any, &bytes), 0);
    port = ntohs(address.sin_port);
    one_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(one_.get(), any, bytes), 0);
    other_ = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_EQ(write_all(one_.get(), std::string(10'000, 'x')), 0);
    std::string got(10'000, ' ');
    EXPECT_EQ(::recv(other_.get(), got.data(), got.size(), MSG_WAITALL), 10'000);
  }
  int port = 0;

 private:
  Fd one_;
  Fd other_;
};

TEST(collector, connections_of_the_job_are_told_with_what_the_kernel_knows_of_them) {
  class Events : public store::RowSink {
   public:
    void on_event(const store::EventRow& row) override { rows.push_back(row); }
    std::vector<store::EventRow> rows;
  };
  const Connected connected;
  Events events;
  const auto collector = make_links_collector({});
  collector->sample(10 * kSecondNs, ::getpid(), events);
  ASSERT_EQ(events.rows.size(), 1U);
  EXPECT_EQ(events.rows[0].kind, "links");
  EXPECT_EQ(events.rows[0].origin.pid, ::getpid());
  const Json links = Json::parse(events.rows[0].json)["links"];
  const std::string listener = "127.0.0.1:" + std::to_string(connected.port);
  ASSERT_EQ(links.size(), 2U);  // both ends are ours
  for (const Json& link : links) {
    const bool sent = link["there"] == listener;
    EXPECT_EQ(link["here"] == listener, !sent);
    EXPECT_EQ(link[sent ? "sent_bytes" : "received_bytes"].get<int64_t>() / 2, 5000);
    EXPECT_GE(link["min_rtt_us"].get<int64_t>(), 1);
  }
  // THEN a second later nothing is told, since that is too often
  collector->sample(11 * kSecondNs, ::getpid(), events);
  EXPECT_EQ(events.rows.size(), 1U);
}

TEST(collector, gpus_are_sampled_one_by_one_and_what_one_cannot_tell_is_left_out) {
  static int devices[2];
  const NvmlFunctions functions{
      .init = [] { return 0; },
      .device_count = [](unsigned int* count) { return *count = 2, 0; },
      .device_by_index = [](unsigned int index,
                            NvmlDevice* device) { return *device = &devices[index], 0; },
      .utilization = [](NvmlDevice, NvmlUtilization* used) { return *used = {42, 7}, 0; },
      .memory = [](NvmlDevice, NvmlMemory* memory) { return *memory = {100, 40, 60}, 0; },
      .temperature = [](NvmlDevice, int, unsigned int* celsius) { return *celsius = 55, 0; },
      .power =
          [](NvmlDevice device, unsigned int* milliwatts) {
            *milliwatts = 250'500;
            return device == &devices[0] ? 0 : 3;
          }};
  Metrics metrics;
  make_nvml_collector(functions)->sample(kSecondNs, 1, metrics);
  EXPECT_EQ(metrics.values["gpu_utilization_percent/0"], 42);
  EXPECT_EQ(metrics.values["gpu_memory_used_bytes/1"], 60);
  EXPECT_EQ(metrics.values["gpu_memory_bytes/1"], 100);
  EXPECT_EQ(metrics.values["gpu_temperature_celsius/0"], 55);
  EXPECT_EQ(metrics.values["gpu_power_watts/0"], 250.5);
  EXPECT_FALSE(metrics.values.contains("gpu_power_watts/1"));
}

}  // namespace
}  // namespace paramedic::supervise
