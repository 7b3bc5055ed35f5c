#include "supervise/run_folder.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <string_view>

#include "base/path.h"
#include "record/format.h"

namespace paramedic::supervise {
namespace {

constexpr size_t kLabelBytesMax = 40;
constexpr size_t kNameBytesMax = 128;
constexpr int kNameTriesMax = 1000;
// A node's ranks each make a ring; with less room than this the run folder is the safer place.
constexpr uint64_t kRingsMin = 16;
constexpr const char* kSharedMemory = "/dev/shm";

// The part of the command that tells people which run this is.
std::string_view label_of(const std::vector<std::string>& command) {
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string_view word = command[i];
    if (word.ends_with(".py")) return base_name(word.substr(0, word.size() - 3));
    if (word == "-m" && i + 1 < command.size()) {
      const std::string_view module = command[i + 1];
      if (module.find("torch.distributed") == 0) continue;
      return module.substr(module.find_last_of('.') + 1);
    }
  }
  const std::string_view program = base_name(command.front());
  return program.substr(0, std::max<size_t>(program.find_last_of('.'), 1));
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, HOST_NAME_MAX);
  return name;
}

std::string random_id() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    bits = static_cast<uint64_t>(real_clock().wall_ns()) ^ static_cast<uint64_t>(::getpid()) << 48U;
  }
  return fmt::format("{:016x}", bits);
}

}  // namespace

std::string make_run_name(const std::vector<std::string>& command, int64_t wall_ns) {
  const auto seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
  tm local{};
  ::localtime_r(&seconds, &local);
  char stamp[32];
  ::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  std::string label(label_of(command).substr(0, kLabelBytesMax));
  for (char& c : label) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!plain && c != '_' && c != '-') c = '-';
  }
  return fmt::format("{}-{}", stamp, label.empty() ? "run" : label);
}

Status check_run_name(const std::string& name) {
  const bool has_control =
      std::any_of(name.begin(), name.end(), [](char c) { return c > 0 && c < ' '; });
  if (name.empty() || name.size() > kNameBytesMax || name.front() == '.' || name.front() == '-' ||
      name.find('/') != std::string::npos || has_control) {
    return invalid_argument(fmt::format("the run name \"{}\" cannot be used", name),
                            "give one plain folder name, such as --name first-try");
  }
  return {};
}

std::string absolute_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  char cwd[PATH_MAX];
  if (::getcwd(cwd, sizeof cwd) == nullptr) return path;
  return path.empty() ? cwd : fmt::format("{}/{}", cwd, path);
}

const char* on_crash_name(OnCrash on_crash) {
  switch (on_crash) {
    case OnCrash::kAuto:
      return "auto";
    case OnCrash::kWait:
      return "wait";
    case OnCrash::kFail:
      break;
  }
  return "fail";
}

Result<store::RunInfo> plan_run(const JobOptions& options, FileSystem& files, const Clock& clock) {
  const std::string runs_dir =
      absolute_path(options.runs_dir.empty() ? "paramedic-runs" : options.runs_dir);
  std::string name = options.name;
  if (!name.empty()) {
    PARAMEDIC_TRY(check_run_name(name));
    if (files.exists(runs_dir + "/" + name)) {
      return invalid_argument(
          fmt::format("the run name \"{}\" is taken: {}/{}", name, runs_dir, name),
          "give another --name, or leave it out to have one made");
    }
  } else {
    name = make_run_name(options.command, clock.wall_ns());
    const std::string stem = name;
    for (int i = 2; files.exists(fmt::format("{}/{}", runs_dir, name)) && i < kNameTriesMax; ++i) {
      name = fmt::format("{}-{}", stem, i);
    }
  }
  store::RunInfo info;
  info.id = random_id();
  info.dir = runs_dir + "/" + name;
  info.command = options.command;
  info.cwd = absolute_path("");
  info.host = host_name();
  info.started = static_cast<double>(clock.wall_ns()) / 1e9;
  info.ring_dir = choose_ring_dir(info.dir, options.ring_bytes);
  return info;
}

std::string choose_ring_dir(const std::string& run_dir, uint32_t ring_bytes) {
  struct statvfs room{};
  const uint64_t ring = ring_bytes == 0 ? record::kRingBytesDefault : ring_bytes;
  if (::access(kSharedMemory, W_OK | X_OK) == 0 && ::statvfs(kSharedMemory, &room) == 0 &&
      uint64_t{room.f_bavail} * room.f_frsize >= kRingsMin * ring) {
    return kSharedMemory;
  }
  return run_dir;
}

Environment job_environment(const JobOptions& options, const std::string& run_dir,
                            const std::string& run_id, const std::string& ring_dir,
                            const std::string& old_python_path) {
  std::string python_path = options.python_dir + "/paramedic/inject";
  // A trailing colon would put the current folder on the job's path.
  if (!old_python_path.empty()) python_path += ":" + old_python_path;
  return {{"PARAMEDIC_RUN", run_dir},
          {"PARAMEDIC_RUN_ID", run_id},
          {"PARAMEDIC_RING_DIR", ring_dir},
          {"PARAMEDIC_PROBE", options.probe_path},
          {"PARAMEDIC_PLAN", options.plan},
          {"PARAMEDIC_RING_BYTES", std::to_string(options.ring_bytes)},
          {"PARAMEDIC_OVERHEAD_BUDGET", fmt::format("{}", options.overhead_budget)},
          {"PARAMEDIC_PYTHON_DIR", options.python_dir},
          {"PARAMEDIC_ON_CRASH", on_crash_name(options.on_crash)},
          {"PARAMEDIC_ROLL_BACK_ON", fmt::format("{}", fmt::join(options.roll_back_on, ","))},
          {"PARAMEDIC_INTERRUPT", options.has_terminal ? "ask" : ""},
          {"PARAMEDIC_ATTEMPT", std::to_string(options.attempt)},
          {"PARAMEDIC_RESTARTS", std::to_string(options.restarts)},
          {"PARAMEDIC_SNAPSHOT_BUDGET", fmt::format("{}", options.snapshot_budget)},
          {"PARAMEDIC_SUPERVISOR", std::to_string(::getpid())},
          {"PARAMEDIC_ALSO", fmt::format("{}", fmt::join(options.also, ","))},
          {"PYTHONPATH", python_path}};
}

}  // namespace paramedic::supervise
