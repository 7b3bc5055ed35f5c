#pragma once
// Starts a training command as it was typed, watches it as the node's agent, and answers with its
// exit code. The command's arguments, stdin, terminal, output bytes and signals are its own.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "rules/finding.h"
#include "supervise/courier_process.h"

namespace paramedic::supervise {

// How long a job that a rule stops has between SIGTERM and SIGKILL.
constexpr int kStopGraceMs = 10'000;
constexpr int kStoppedExitCode = 75;  // contract.md: a rule stopped the job

// What happens to an exception that would end the job (contract.md).
enum class OnCrash : uint8_t {
  kAuto,  // policies, then whoever sits at the terminal
  kWait,  // a person
  kFail,  // nothing: recovery is off
};
constexpr int kWaitLimitS = 3600;

struct JobOptions {
  std::vector<std::string> command;  // argv, at least one; run through execvp
  std::string runs_dir;              // paramedic-runs, or --dir
  std::string name;                  // "" = made from the time, unique
  double overhead_budget = 0.01;     // share of step time
  int attempt = 1;                   // of `run --retries`; the job finds it in PARAMEDIC_ATTEMPT
  std::string plan;                  // capture plan text for the probe; "" = the default
  uint32_t ring_bytes = 0;           // 0 = the default
  uint64_t disk_bytes_max = UINT64_MAX;
  std::vector<std::string> stop_on;       // rule ids that stop the job (exit code 75)
  std::vector<std::string> roll_back_on;  // that put weights from before in place: nan_origin
  OnCrash on_crash = OnCrash::kFail;
  int wait_limit_s = kWaitLimitS;  // how long a paused process waits for its repair
  std::string notify;              // URL or command that is told of a pause; "" = nobody
  int restarts = 0;  // how often a job that dies of a signal goes on from its newest snapshot
  double snapshot_budget = 0.003;  // share of time that snapshots may take
  std::vector<std::string> also;   // packages outside the job's own files that are recovered too
  std::string python_dir;          // folder that holds the package `paramedic`
  std::string probe_path;          // libparamedic_probe.so
  bool has_terminal = false;       // somebody sits there who can be asked about a crash
  bool color = false;              // of the messages about findings on stderr
  CollectorOptions collector;      // of a job of several nodes
  int stop_grace_ms = kStopGraceMs;
};

struct JobOutcome {
  int exit_code = 0;  // the job's own, 128+N after signal N, 127/126 where exec failed, 75 stopped
  std::optional<int> signal;      // that the job died of
  bool was_asked_to_end = false;  // by a signal to us
  std::string run_dir;            // "" where no run folder could be made
  std::vector<rules::Finding> findings;
  // What could not be done, one sentence each; they have been shown on stderr already.
  std::vector<std::string> notes;
};

// Runs to the end. Only a usage error (empty command, name taken) is a Status; whatever else
// Paramedic meets becomes a note, and the job goes on. One at a time, from the main thread while it
// is the only one: it installs signal handlers and reaps children.
Result<JobOutcome> run_job(const JobOptions& options);

struct AgentOptions {
  int pid = 0;        // the process that is watched: its parent script
  JobOptions job;     // command is what to show as the command; not started
  int ready_fd = -1;  // one JSON line {"run_dir", "run_id", "ring_dir"} is written here when ready
};

// `paramedic.watch()` without `run`: the same agent beside a process that runs already. Returns
// when that process has ended.
Status attend(const AgentOptions& options);

}  // namespace paramedic::supervise
