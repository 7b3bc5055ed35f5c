// The agent with real rings, a real run folder and real rules.
#include "supervise/agent.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "base/file.h"
#include "record/ring_writer.h"
#include "supervise/agent_process.h"
#include "supervise/job_harness.h"
#include "supervise/run_folder.h"

namespace paramedic::supervise {
namespace {

// What a training process would write: an event and a loss that is lost from step 3 on.
class Trainer {
 public:
  Trainer(const std::string& ring_dir, const std::string& run_id) {
    record::RingOptions options;
    options.directory = ring_dir;
    options.run_id = run_id;
    auto ring = record::RingWriter::create(options);
    PARAMEDIC_CHECK(ring.ok());
    ring_ = std::move(ring).value();
    loss_ = ring_->define({.kind = record::Kind::kScalar, .sizes = {}, .name = "loss/train.py:3"})
                .value_or(0);
    event("attached", R"({"framework": "torch", "version": "2.13.0", "python": "3.11.7"})");
  }

  void event(const std::string& kind, const std::string& json) {
    const record::EventItem item{static_cast<uint32_t>(kind.size()),
                                 static_cast<uint32_t>(json.size())};
    const Bytes parts[] = {std::as_bytes(std::span(&item, 1)), as_bytes(kind), as_bytes(json)};
    ring_->append({.type = record::RecordType::kEvent, .step = -1, .count = 1}, parts);
  }

  void steps(int count) {
    for (int step = 0; step < count; ++step) {
      const double loss = step < 3 ? 1.0 : std::numeric_limits<double>::quiet_NaN();
      const record::ScalarItem item{loss_, 0, loss};
      const Bytes parts[] = {std::as_bytes(std::span(&item, 1))};
      ring_->append({.type = record::RecordType::kScalars, .step = step, .count = 1}, parts);
      ring_->step_done(step, 5000);
    }
  }

  void close() { ring_->close(); }
  [[nodiscard]] const std::string& path() const { return ring_->path(); }

 private:
  std::unique_ptr<record::RingWriter> ring_;
  uint32_t loss_ = 0;
};

// Not a test of ours: what the job of the tests below runs. It trains until it is told to stop.
TEST(trainer, DISABLED_trains_until_sigterm) {
  const char* ring_dir = std::getenv("PARAMEDIC_RING_DIR");
  if (ring_dir == nullptr) GTEST_SKIP();
  Trainer trainer(ring_dir, std::getenv("PARAMEDIC_RUN_ID"));
  trainer.steps(10);
  if (std::getenv("TRAINER_IGNORES_SIGTERM") != nullptr) ::signal(SIGTERM, SIG_IGN);
  while (true) ::pause();
}

JobOptions trainer_job_in(const TemporaryFolder& folder) {
  JobOptions options = job_in(folder, {std::filesystem::read_symlink("/proc/self/exe").string(),
                                       "--gtest_also_run_disabled_tests",
                                       "--gtest_filter=trainer.DISABLED_trains_until_sigterm"});
  options.stop_on = {"nan_origin"};
  return options;
}

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    auto planned = plan_run(job_in(folder_, {"true"}), posix_file_system(), real_clock());
    PARAMEDIC_CHECK(planned.ok());
    info_ = std::move(planned).value();
    info_.ring_dir = folder_.path();
  }

  std::unique_ptr<Agent> make_agent() {
    auto agent = Agent::create(
        info_, UINT64_MAX, false,
        {.finding = [this](const rules::Finding& finding) { told_.push_back(finding.id); },
         .note = [this](const std::string& text) { notes_.push_back(text); }});
    PARAMEDIC_CHECK(agent.ok());
    return std::move(agent).value();
  }

  // A process that trains, closes its ring unless it is to die, and is gone when this returns.
  void train(bool in_good_order) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      Trainer trainer(info_.ring_dir, info_.id);
      trainer.steps(10);
      if (in_good_order) trainer.close();
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
  }

  std::unique_ptr<store::RunReader> read_run() {
    auto reader = store::RunReader::open(info_.dir);
    PARAMEDIC_CHECK(reader.ok());
    return std::move(reader).value();
  }

  TemporaryFolder folder_;
  store::RunInfo info_;
  std::vector<std::string> told_;
  std::vector<std::string> notes_;
};

TEST_F(AgentTest, what_a_process_captured_is_stored_judged_and_reported) {
  const auto agent = make_agent();
  train(true);
  agent->tick();
  agent->finish({"finished", 0, std::nullopt});

  const auto run = read_run();
  EXPECT_EQ(run->info().framework, "torch");
  EXPECT_EQ(run->info().status, "finished");
  EXPECT_EQ(run->info().exit_code, 0);
  EXPECT_EQ(run->info().steps, 10);
  EXPECT_EQ(run->info().overhead_percent, 0.5);
  ASSERT_EQ(run->info().ranks.size(), 1U);
  EXPECT_EQ(run->info().ranks[0].status, "finished");
  EXPECT_EQ(run->info().ranks[0].last_step, 9);
  int losses = 0;
  EXPECT_TRUE(run->read_scalars([&](const store::ScalarRow&) { return ++losses; }).ok());
  EXPECT_EQ(losses, 10);
  EXPECT_EQ(told_, std::vector<std::string>{"nan_origin"});
  ASSERT_EQ(agent->findings().size(), 1U);
  const auto stored = run->read_findings();
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored.value().size(), 1U);
  EXPECT_EQ(notes_, std::vector<std::string>{});
}

TEST_F(AgentTest, flush_now_makes_everything_readable_before_its_second_is_over) {
  const auto agent = make_agent();
  Trainer trainer(info_.ring_dir, info_.id);
  EXPECT_EQ(agent->flush_now(), -1);
  trainer.steps(10);
  EXPECT_EQ(agent->flush_now(), 9);
  const auto run = read_run();
  EXPECT_EQ(run->info().status, "running");
  EXPECT_EQ(run->info().steps, 10);
  int losses = 0;
  EXPECT_TRUE(run->read_scalars([&](const store::ScalarRow&) { return ++losses; }).ok());
  EXPECT_EQ(losses, 10);
}

TEST_F(AgentTest, ring_of_a_dead_process_is_removed_once_it_is_stored) {
  const auto agent = make_agent();
  train(true);
  EXPECT_EQ(store::find_rings(info_.ring_dir, info_.id).size(), 1U);
  agent->finish({"finished", 0, std::nullopt});
  EXPECT_EQ(store::find_rings(info_.ring_dir, info_.id).size(), 0U);
}

TEST_F(AgentTest, ring_of_a_process_that_outlives_the_command_stays) {
  const auto agent = make_agent();
  Trainer trainer(info_.ring_dir, info_.id);  // this process, which lives
  trainer.steps(2);
  agent->finish({"finished", 0, std::nullopt});
  EXPECT_EQ(store::find_rings(info_.ring_dir, info_.id).size(), 1U);
  EXPECT_EQ(read_run()->info().ranks.at(0).status, "running");
}

TEST_F(AgentTest, process_that_died_is_a_failed_rank_of_a_failed_run) {
  const auto agent = make_agent();
  train(false);
  agent->finish({"failed", std::nullopt, SIGKILL});
  EXPECT_EQ(read_run()->info().ranks.at(0).status, "failed");
  EXPECT_EQ(read_run()->info().signal, SIGKILL);
}

TEST_F(AgentTest, file_that_is_no_ring_is_named_once_and_hurts_nothing) {
  const auto agent = make_agent();
  write_file(info_.ring_dir + "/paramedic-" + info_.id + "-1-0123456789abcdef.ring", "not a ring");
  train(true);
  for (int i = 0; i < 60; ++i) agent->tick();
  agent->finish({"finished", 0, std::nullopt});
  EXPECT_EQ(read_run()->info().steps, 10);
  EXPECT_EQ(notes_.size(), 1U);
}

TEST_F(AgentTest, what_is_not_captured_is_listed_once) {
  const auto agent = make_agent();
  Trainer trainer(info_.ring_dir, info_.id);
  trainer.event("not_captured", R"({"what": "activations", "why": "compiled"})");
  trainer.event("not_captured", R"({"what": "activations", "why": "compiled"})");
  trainer.event("not_captured", "damaged");
  agent->finish({"finished", 0, std::nullopt});
  const auto run = read_run();
  ASSERT_EQ(run->info().not_captured.size(), 1U);
  EXPECT_EQ(run->info().not_captured[0].first, "activations");
}

TEST(stop, rule_of_stop_on_ends_the_job_with_75) {
  const TemporaryFolder folder;
  PipedJob job(trainer_job_in(folder));
  EXPECT_EQ(job.wait(), kStoppedExitCode);
  EXPECT_NE(job.err().find("paramedic: error nan_origin at step 3"), std::string::npos)
      << job.err();
  EXPECT_NE(job.err().find("paramedic show run"), std::string::npos) << job.err();
  auto run = store::RunReader::open(folder.path() + "/run");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run.value()->info().status, "stopped");
}

TEST(stop, job_that_ignores_sigterm_is_killed_after_the_grace) {
  const TemporaryFolder folder;
  JobOptions options = trainer_job_in(folder);
  options.stop_grace_ms = 200;
  PipedJob job(options, [] { ::setenv("TRAINER_IGNORES_SIGTERM", "1", 1); });
  EXPECT_EQ(job.wait(), kStoppedExitCode);
  auto run = store::RunReader::open(folder.path() + "/run");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run.value()->info().signal, SIGKILL);
}

TEST(finding_line, says_what_where_and_what_to_open) {
  rules::Finding finding;
  finding.id = "vanishing_gradient";
  finding.severity = rules::Severity::kError;
  finding.step = 40;
  finding.message = "the gradient is gone";
  EXPECT_EQ(
      finding_line(finding, "/runs/first", false),
      "error vanishing_gradient at step 40: the gradient is gone (show: paramedic show first)");
  finding.step.reset();
  finding.severity = rules::Severity::kWarning;
  EXPECT_EQ(finding_line(finding, "first", true),
            "\033[33mwarning vanishing_gradient\033[0m: the gradient is gone "
            "(show: paramedic show first)");
}

TEST(attend, agent_beside_a_running_process_ends_with_it) {
  const TemporaryFolder folder;
  FdPair ready = std::move(make_pipe()).value();
  FdPair gate = std::move(make_pipe()).value();
  const pid_t script = ::fork();
  if (script == 0) {
    gate.second.reset();
    char byte = 0;
    (void)!::read(gate.first.get(), &byte, 1);
    ::_exit(0);
  }
  const pid_t agent = ::fork();
  if (agent == 0) {
    gate.second.reset();
    AgentOptions options;
    options.pid = script;
    options.job = job_in(folder, {"notebook"});
    options.ready_fd = ready.second.get();
    ::_exit(attend(options).exit_code());
  }
  ready.second.reset();
  std::string line(4096, '\0');
  line.resize(static_cast<size_t>(
      std::max<ssize_t>(::read(ready.first.get(), line.data(), line.size()), 0)));
  const auto json = parse_json(line, "ready");
  ASSERT_TRUE(json.ok()) << line;
  EXPECT_EQ(string_or(json.value(), "run_dir", ""), folder.path() + "/run");
  EXPECT_NE(string_or(json.value(), "run_id", ""), "");
  EXPECT_NE(string_or(json.value(), "ring_dir", ""), "");
  gate.second.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(script, &status, 0), script);
  ASSERT_EQ(::waitpid(agent, &status, 0), agent);
  EXPECT_EQ(status, 0);
  const auto run = store::RunReader::open(folder.path() + "/run");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run.value()->info().status, "finished");
}

TEST(attend, process_that_does_not_exist_is_a_usage_error) {
  AgentOptions options;
  options.pid = 0x3fffffff;
  EXPECT_EQ(attend(options).exit_code(), 2);
}

}  // namespace
}  // namespace paramedic::supervise
