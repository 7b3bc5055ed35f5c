#include "fleet/find.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "diagnose/run.h"

namespace paramedic::fleet {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthMax = 8;

class Search {
 public:
  explicit Search(std::string top) : top_(std::move(top)) {}

  Status visit(const fs::path& folder, int depth) {
    if (diagnose::is_run_folder(folder.string())) return add_run(folder);
    std::error_code error;
    std::vector<fs::path> folders;
    std::vector<diagnose::Input> logs;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      std::error_code unknown;  // of a link that leads nowhere
      if (at->is_directory(unknown)) {
        folders.push_back(at->path());
      } else if (at->is_regular_file(unknown) && diagnose::is_log_name(at->path().filename())) {
        const std::string path = at->path().string();
        logs.push_back({path, diagnose::rank_of_path(path)});
      }
    }
    if (error) return errno_error("cannot read the folder", folder.string(), error.value());
    PARAMEDIC_TRY(add_logs(folder, std::move(logs)));
    if (depth == kDepthMax) return {};
    for (const fs::path& each : folders) {
      const Status status = visit(each, depth + 1);
      // One folder that is closed to us must not hide the others.
      if (!status.ok() && status.code() == StatusCode::kExhausted) return status;
    }
    return {};
  }

  std::vector<JobPath> take() {
    std::sort(jobs_.begin(), jobs_.end(),
              [](const JobPath& a, const JobPath& b) { return a.name < b.name; });
    return std::move(jobs_);
  }

 private:
  Status add(JobPath job) {
    if (jobs_.size() == kJobsMax) return exhausted("fleet: more than 1,000,000 jobs in " + top_);
    const std::string relative = fs::path(job.path).lexically_relative(top_).string();
    job.name = relative == "." ? fs::path(job.path).filename().string() : relative;
    jobs_.push_back(std::move(job));
    return {};
  }

  Status add_run(const fs::path& folder) {
    auto logs = diagnose::find_inputs({folder.string()});
    JobPath job{folder.string(), "", true, {}};
    if (logs.ok()) job.logs = std::move(logs->found);
    return add(std::move(job));
  }

  Status add_logs(const fs::path& folder, std::vector<diagnose::Input> logs) {
    std::sort(logs.begin(), logs.end(),
              [](const diagnose::Input& a, const diagnose::Input& b) { return a.path < b.path; });
    const auto of_rank = [&](const diagnose::Input& log) {
      // The name of a folder above may tell a rank too, of all its files.
      return diagnose::rank_of_path(fs::path(log.path).filename().string()) >= 0;
    };
    const auto others = std::stable_partition(logs.begin(), logs.end(), of_rank);
    if (others != logs.begin()) {
      PARAMEDIC_TRY(add({folder.string(), "", false, {logs.begin(), others}}));
    }
    for (auto log = others; log != logs.end(); ++log) {
      PARAMEDIC_TRY(add({log->path, "", false, {*log}}));
    }
    return {};
  }

  const std::string top_;
  std::vector<JobPath> jobs_;
};

}  // namespace

Result<std::vector<JobPath>> find_jobs(const std::string& dir) {
  std::error_code error;
  if (!fs::is_directory(dir, error)) {
    return not_found("fleet: there is no folder " + dir,
                     "give the folder that holds the runs or the logs");
  }
  Search search(dir);
  PARAMEDIC_TRY(search.visit(dir, 0));
  return search.take();
}

}  // namespace paramedic::fleet
