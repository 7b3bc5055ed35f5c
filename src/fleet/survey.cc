#include "fleet/survey.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "base/lines.h"
#include "diagnose/diagnose.h"
#include "diagnose/prefix.h"
#include "diagnose/run.h"
#include "diagnose/text.h"

namespace paramedic::fleet {
namespace {

constexpr int kThreadsMax = 256;
constexpr std::chrono::milliseconds kProgressEvery{200};
// Where the first and the last date of a log are looked for.
constexpr size_t kDatedBytes = size_t{16} * 1024;
// A time of day without its date counts from midnight.
constexpr double kDated = 366.0 * 86400;

std::string owner_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return "";
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  ::getpwuid_r(status.st_uid, &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? found->pw_name : fmt::format("{}", status.st_uid);
}

// The earliest and the latest date among the lines of `text`.
void note_dates(std::string_view text, double& first, double& last) {
  diagnose::PrefixSplitter splitter;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::string clean = diagnose::clean_line(line);
    const double time_s = splitter.split(clean).time_s;
    if (!(time_s > kDated)) continue;
    first = std::min(first, time_s);
    last = std::max(last, time_s);
  }
}

std::string bytes_at(std::ifstream& file, std::streamoff from) {
  std::string text(kDatedBytes, '\0');
  file.clear();
  file.seekg(from);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// When the job began and how long it ran, by the dates in its logs; else when they last changed.
void set_times(const JobPath& path, Job& job) {
  double first = std::numeric_limits<double>::infinity();
  double last = 0;
  double changed = 0;
  for (const diagnose::Input& log : path.logs) {
    struct stat status{};
    if (::stat(log.path.c_str(), &status) != 0) continue;
    changed = std::max(changed, static_cast<double>(status.st_mtime));
    std::ifstream file(log.path, std::ios::binary);
    note_dates(bytes_at(file, 0), first, last);
    const auto size = static_cast<std::streamoff>(status.st_size);
    const auto from = std::max<std::streamoff>(size - std::streamoff{kDatedBytes}, 0);
    if (from > 0) note_dates(bytes_at(file, from), first, last);
  }
  const bool dated = std::isfinite(first) && last > 0;
  job.started = dated ? first : changed;
  job.seconds = dated ? last - first : 0;
  job.ranks = std::max<int>(1, static_cast<int>(path.logs.size()));
}

void set_run(const Json& run, Job& job) {
  job.started = number_or(run, "started", 0);
  const double ended = number_or(run, "ended", 0);
  job.seconds = ended > job.started ? ended - job.started : 0;
  job.ranks = std::max(1, static_cast<int>(integer_or(run, "world_size", 1)));
  const std::string status = string_or(run, "status", "");
  job.is_running = status == "running" || status == "paused";
  job.command = string_or(run, "cwd", "") + ":";
  if (const auto command = run.find("command"); command != run.end()) {
    job.command += to_text(*command);
  }
}

Result<diagnose::Diagnosis> judge(const JobPath& path, Job& job) {
  if (path.is_run) {
    PARAMEDIC_ASSIGN(const std::string text, posix_file_system().read(path.path + "/run.json"));
    PARAMEDIC_ASSIGN(const Json run, parse_json(text, path.path + "/run.json"));
    set_run(run, job);
    return diagnose::diagnose_run(path.path);
  }
  set_times(path, job);
  std::vector<std::string> files;
  files.reserve(path.logs.size());
  for (const diagnose::Input& log : path.logs) files.push_back(log.path);
  return diagnose::diagnose_paths(files);
}

// The threads take the next job that nobody has; what is found goes to its place.
class Survey {
 public:
  Survey(const std::vector<JobPath>& paths, const Cache& cache)
      : paths_(paths), cache_(cache), jobs_(paths.size()), keys_(paths.size()) {}

  void work() {
    for (;;) {
      const size_t index = next_.fetch_add(1);
      if (index >= paths_.size()) break;
      take(index);
      if (done_.fetch_add(1) + 1 == paths_.size()) {
        const std::lock_guard lock(mutex_);
        all_done_.notify_all();
      }
    }
  }

  void wait(const std::function<void(size_t)>& progress) {
    std::unique_lock lock(mutex_);
    while (!all_done_.wait_for(lock, kProgressEvery, [&] { return done_ == paths_.size(); })) {
      if (progress) progress(done_);
    }
  }

  std::vector<Job> take_jobs() { return std::move(jobs_); }
  // "" for what came from the cache, or cannot be kept.
  [[nodiscard]] const std::string& key_to_keep(size_t index) const { return keys_[index]; }

 private:
  void take(size_t index) {
    const JobPath& path = paths_[index];
    Job& job = jobs_[index];
    std::string key = content_key(path);
    const std::string* known = key.empty() ? nullptr : cache_.find(key);
    const auto json = known == nullptr ? Result<Json>(Json()) : parse_json(*known, "the cache");
    if (known != nullptr && json.ok()) {
      job = job_from_json(*json);
    } else {
      job = read_job(path);
      if (job.problem.empty() && !job.is_running) keys_[index] = std::move(key);
    }
    job.name = path.name;
  }

  const std::vector<JobPath>& paths_;
  const Cache& cache_;
  std::vector<Job> jobs_;
  std::vector<std::string> keys_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> done_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
};

}  // namespace

Job read_job(const JobPath& path) {
  Job job;
  job.name = path.name;
  job.owner = owner_of(path.path);
  const auto diagnosis = judge(path, job);
  if (diagnosis.ok()) {
    set_verdict(diagnosis->verdict, job);
  } else {
    job.problem = diagnosis.status().message();
  }
  return job;
}

std::vector<Job> survey(const std::vector<JobPath>& paths, Cache& cache,
                        const SurveyOptions& options) {
  if (paths.empty()) return {};
  (void)diagnose::Catalog::builtin();  // once, before the threads all wait for it
  Survey all(paths, cache);
  const int wanted =
      options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  const auto count = std::min<size_t>(std::clamp(wanted, 1, kThreadsMax), paths.size());
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (size_t i = 0; i < count; ++i) threads.emplace_back([&] { all.work(); });
  all.wait(options.progress);
  for (std::thread& thread : threads) thread.join();
  std::vector<Job> jobs = all.take_jobs();
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!all.key_to_keep(i).empty()) cache.add(all.key_to_keep(i), to_text(to_json(jobs[i])));
  }
  return jobs;
}

}  // namespace paramedic::fleet
