#include "supervise/job_settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/path.h"
#include "cluster/lint/launch_line.h"
#include "cluster/lint/read_setting.h"
#include "supervise/host_facts.h"

namespace paramedic::supervise {
namespace {

constexpr size_t kProcessesMax = 20'000;
constexpr size_t kAncestorsMax = 32;
constexpr size_t kNamesMax = 64;
constexpr size_t kPortsMax = 64;
constexpr size_t kScriptBytesMax = 256U << 10;
// A process that is no rank by then was not about to become one by exec.
constexpr int64_t kYoungNs = 3'000'000'000;
constexpr int64_t kPortsNs = 1'000'000'000;
// Looking through all processes of a machine may take this part of one core at most.
constexpr int64_t kLookShare = 50;

std::string_view program_of(const std::vector<std::string>& words) {
  return words.empty() ? std::string_view() : base_name(words[0]);
}

// Whoever ranks are, they are programs in Python; shells and `env` carry the variables onwards.
bool is_python(const std::vector<std::string>& words) {
  const std::string_view program = program_of(words);
  return program.starts_with("python") || program.starts_with("pypy");
}

std::string link_target(const std::string& path) {
  char target[4096];
  const ssize_t bytes = ::readlink(path.c_str(), target, sizeof target);
  return bytes <= 0 ? "" : std::string(target, static_cast<size_t>(bytes));
}

// The script of `bash start.sh`, `sh -e start.sh`, or of a script that is run by its path; "" for
// anything else.
std::string shell_script(const std::string& proc_root, int32_t pid,
                         const std::vector<std::string>& words) {
  constexpr std::array kShells = {"bash", "sh", "dash", "zsh", "ksh"};
  const std::string_view program = program_of(words);
  if (std::find(kShells.begin(), kShells.end(), program) == kShells.end()) return "";
  const auto script = std::find_if(words.begin() + 1, words.end(), [](const std::string& word) {
    return !word.starts_with('-') && !word.starts_with('+');
  });
  if (script == words.end() || std::find(words.begin(), script, "-c") != script) return "";
  if (script->starts_with('/')) return *script;
  const std::string folder = fmt::format("{}/{}", proc_root, pid);
  // The shell may have changed its folder since, but keeps its script open: bash as 255, dash as
  // 10.
  for (const char* descriptor : {"/fd/255", "/fd/10"}) {
    const std::string open = link_target(folder + descriptor);
    if (open.ends_with(base_name(*script))) return open;
  }
  return link_target(folder + "/cwd") + "/" + *script;
}

// Each name is asked for once, by a thread that nobody waits for.
class SystemLookup : public NameLookup {
 public:
  std::optional<std::vector<std::string>> addresses(const std::string& name) override {
    const std::scoped_lock lock(answers_->mutex);
    if (const auto known = answers_->known.find(name); known != answers_->known.end()) {
      return known->second;
    }
    if (!asked_.insert(name).second) return std::nullopt;
    std::thread([answers = answers_, name] {
      auto found = resolve_name(name);
      const std::scoped_lock guard(answers->mutex);
      answers->known[name] = std::move(found);
    }).detach();
    return std::nullopt;
  }

 private:
  struct Answers {
    std::mutex mutex;
    std::map<std::string, std::vector<std::string>> known;
  };
  // Shared with the threads, which may outlive this object.
  std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::set<std::string> asked_;
};

store::EventRow event_row(int64_t time_ns, const char* kind, const Json& json) {
  store::EventRow row;
  row.origin.time_ns = time_ns;
  row.kind = kind;
  row.json = to_text(json);
  return row;
}

}  // namespace

std::unique_ptr<NameLookup> system_lookup() { return std::make_unique<SystemLookup>(); }

JobSettings::JobSettings(std::string proc_root, const std::string& host,
                         std::unique_ptr<NameLookup> lookup)
    : proc_(std::move(proc_root)), salt_(std::random_device{}()), lookup_(std::move(lookup)) {
  host_ = read_host_facts(host);
}

void JobSettings::look(int64_t time_ns, pid_t root_pid, store::RowSink& sink) {
  // "0.52 0.58 0.59 2/613 41237": the last number changes with every new process.
  const std::string load = read_small_file(proc_ + "/loadavg").value_or("");
  const size_t space = load.find_last_of(' ');
  const std::string newest = space == std::string::npos ? "" : load.substr(space);
  const bool any_young = std::any_of(known_.begin(), known_.end(), [&](const auto& entry) {
    return !entry.second.is_told && time_ns - entry.second.first_ns < kYoungNs;
  });
  const int64_t now_ns = real_clock().monotonic_ns();
  if ((newest != newest_pid_ || any_young || newest.empty()) && now_ns >= next_look_ns_) {
    newest_pid_ = newest;
    find_processes(time_ns, root_pid, sink);
    const int64_t end_ns = real_clock().monotonic_ns();
    next_look_ns_ = end_ns + kLookShare * (end_ns - now_ns);
  }
  find_ended(time_ns, sink);
  if (told_.empty()) return;
  look_up_names();
  if (!ports_.empty() && time_ns - looked_at_ports_ns_ >= kPortsNs) look_at_ports(time_ns);
  tell_host(time_ns, sink);
}

void JobSettings::find_processes(int64_t time_ns, pid_t root_pid, store::RowSink& sink) {
  // A frozen copy may become the job's process, and its parent is known now.
  const std::vector<ProcessStat> found =
      job_processes(proc_, root_pid, {.with_frozen = true, .most = kProcessesMax});
  for (const ProcessStat& process : found) parent_of_.try_emplace(process.pid, process.parent);
  // Parents before their children, so that a child of a rank is known to be one.
  std::multimap<size_t, const ProcessStat*> by_depth;
  for (const ProcessStat& process : found) {
    by_depth.emplace(ancestors_of(process.pid).size(), &process);
  }
  for (const auto& [depth, process] : by_depth) look_at(time_ns, *process, sink);
}

void JobSettings::look_at(int64_t time_ns, const ProcessStat& process, store::RowSink& sink) {
  Known& known = known_[process.pid];
  if (known.start_ticks != process.start_ticks) known = {process.start_ticks, false, time_ns};
  if (known.is_told || time_ns - known.first_ns >= kYoungNs || told_.size() >= kProcessesMax) {
    return;
  }
  const auto words = command_line(proc_, process.pid);
  if (!is_python(words)) return;
  const auto environ_bytes = read_small_file(fmt::format("{}/{}/environ", proc_, process.pid));
  if (!environ_bytes) return;
  cluster::Setting setting;
  setting.host = host_.host;
  setting.pid = process.pid;
  setting.ancestors = ancestors_of(process.pid);
  setting.launch = cluster::launch_words(words);
  cluster::add_variables(*environ_bytes, salt_, setting);
  cluster::name_setting(setting);
  const bool is_task = setting.variable("TF_CONFIG") != nullptr;
  if (!setting.is_launcher() && !setting.rank() && !is_task) return;
  known.is_told = true;
  // Workers of a loader, helpers of multiprocessing: they have the variables of their parent.
  for (const int32_t ancestor : setting.ancestors) {
    const auto above = told_.find(ancestor);
    if (above != told_.end() && !above->second.is_launcher()) return;
  }
  if (setting.is_launcher()) setting.name = "torchrun";
  setting.limits = read_limits(proc_, process.pid);
  for (const int32_t ancestor : setting.ancestors) {
    const std::string script = shell_script(proc_, ancestor, command_line(proc_, ancestor));
    const auto text = script.empty() ? std::nullopt : read_small_file(script);
    if (!text) continue;
    setting.script = script;
    setting.assignments = cluster::read_assignments(text->substr(0, kScriptBytesMax));
    break;
  }
  note_wishes(setting);
  auto row = event_row(time_ns, "environment", setting.to_json());
  row.origin.rank = static_cast<int32_t>(setting.rank().value_or(0));
  row.origin.pid = process.pid;
  told_[process.pid] = std::move(setting);
  sink.on_event(row);
}

std::vector<int32_t> JobSettings::ancestors_of(pid_t pid) const {
  std::vector<int32_t> above;
  for (auto found = parent_of_.find(pid); found != parent_of_.end() && above.size() < kAncestorsMax;
       found = parent_of_.find(found->second)) {
    above.push_back(found->second);
  }
  return above;
}

void JobSettings::find_ended(int64_t time_ns, store::RowSink& sink) {
  for (auto entry = told_.begin(); entry != told_.end();) {
    const auto stat = read_process(proc_, entry->first);
    const Known& known = known_[entry->first];
    const bool runs =
        stat && stat->state != 'Z' && stat->state != 'X' && stat->start_ticks == known.start_ticks;
    if (runs) {
      ++entry;
      continue;
    }
    auto row = event_row(time_ns, "process_ended", {{"pid", entry->first}});
    row.origin.rank = static_cast<int32_t>(entry->second.rank().value_or(0));
    row.origin.pid = entry->first;
    entry = told_.erase(entry);
    sink.on_event(row);
  }
}

void JobSettings::note_wishes(const cluster::Setting& setting) {
  if (setting.is_launcher()) {
    note_meeting("", cluster::parse_launch(setting).store_port());
    return;
  }
  const std::string* address = setting.variable("MASTER_ADDR");
  const int64_t port = setting.number("MASTER_PORT").value_or(0);
  if (address != nullptr) note_meeting(*address, static_cast<int>(port));
}

void JobSettings::note_meeting(const std::string& address, int port) {
  if (!address.empty() && names_.size() < kNamesMax) names_.insert(address);
  if (port > 0 && ports_.size() < kPortsMax) ports_.insert(port);
}

void JobSettings::look_up_names() {
  for (const std::string& name : names_) {
    if (host_.names.contains(name)) continue;
    if (auto addresses = lookup_->addresses(name)) host_.names[name] = std::move(*addresses);
  }
}

// Told are those that two looks found in a row: a server that just ends is nobody's trouble.
void JobSettings::look_at_ports(int64_t time_ns) {
  looked_at_ports_ns_ = time_ns;
  const auto open = listening_ports(proc_);
  for (const int port : ports_) {
    const auto found = open.find(port);
    if (found == open.end()) {
      seen_once_.erase(port);
      host_.listeners.erase(port);
      continue;
    }
    uint64_t& seen = seen_once_[port];
    const bool is_settled = std::exchange(seen, found->second) == found->second;
    if (!is_settled) host_.listeners.erase(port);
    if (is_settled && !host_.listeners.contains(port)) {
      host_.listeners[port] = owner_of(found->second);
    }
  }
}

// A socket that a rank opened is open in its children as well: the rank comes first.
cluster::Listener JobSettings::owner_of(uint64_t inode) const {
  for (const auto& [pid, setting] : told_) {
    if (holds_socket(proc_, pid, inode)) return {pid, "a process of the job"};
  }
  for (const pid_t pid : list_processes(proc_)) {
    if (!holds_socket(proc_, pid, inode)) continue;
    for (const int32_t above : ancestors_of(pid)) {
      if (told_.contains(above)) return {above, "a process of the job"};
    }
    std::string command;
    for (const std::string& word : command_line(proc_, pid)) {
      if (command.size() < 80) command += (command.empty() ? "" : " ") + word;
    }
    return {pid, command};
  }
  return {};
}

void JobSettings::tell_host(int64_t time_ns, store::RowSink& sink) {
  std::string text = to_text(host_.to_json());
  if (text == told_host_) return;
  told_host_ = std::move(text);
  sink.on_event(event_row(time_ns, "host", host_.to_json()));
}

}  // namespace paramedic::supervise
