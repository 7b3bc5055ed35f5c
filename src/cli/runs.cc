#include "cli/runs.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/log.h"
#include "cli/text.h"
#include "supervise/control_client.h"

namespace paramedic::cli {
namespace {

constexpr size_t kNamesShown = 8;
// An agent that is alive answers within two of its ticks; nobody waits longer for a stuck one.
constexpr int kFlushWaitMs = 300;

std::string run_file(const std::string& folder) { return folder + "/run.json"; }

// Names of the runs in `dir`; none when there is no such folder.
std::vector<std::string> run_names(FileSystem& files, const std::string& dir) {
  std::vector<std::string> names;
  const Result<std::vector<std::string>> entries = files.list(dir);
  if (!entries.ok()) return names;
  for (const std::string& entry : *entries) {
    if (files.exists(run_file(fmt::format("{}/{}", dir, entry)))) names.push_back(entry);
  }
  return names;
}

Status no_run(const std::string& what, const std::string& dir,
              const std::vector<std::string>& names, const std::string& run) {
  if (names.empty()) {
    return not_found(what,
                     "`paramedic run -- python train.py` makes a run; --dir names another "
                     "folder of runs");
  }
  const std::string meant = closest(run, names);
  if (!meant.empty()) return not_found(what, fmt::format("did you mean {}?", clean(meant)));
  std::string hint = "runs in " + dir + ":";
  for (size_t i = 0; i < names.size() && i < kNamesShown; i++) hint += " " + clean(names[i]);
  if (names.size() > kNamesShown) hint += " …";
  return not_found(what, hint);
}

Result<std::string> newest_run(FileSystem& files, const std::string& dir) {
  const std::vector<std::string> names = run_names(files, dir);
  std::string newest;
  double newest_started = 0;
  for (const std::string& name : names) {
    const std::string path = run_file(fmt::format("{}/{}", dir, name));
    const Result<std::string> text = files.read(path);
    const Result<Json> info = text.ok() ? parse_json(*text, path) : Result<Json>(text.status());
    if (!info.ok()) {
      log::warn("{} (skipped)", info.status().message());
      continue;
    }
    const double started = number_or(*info, "started", 0);
    if (newest.empty() || started > newest_started) {
      newest = name;
      newest_started = started;
    }
  }
  if (newest.empty()) return no_run(fmt::format("there is no run in {}", dir), dir, {}, "");
  return dir + "/" + newest;
}

}  // namespace

Result<std::string> find_run(FileSystem& files, const std::string& dir, const std::string& run) {
  if (run.empty()) return newest_run(files, dir);
  if (run.find('/') == std::string::npos && files.exists(run_file(dir + "/" + run))) {
    return dir + "/" + run;
  }
  std::string path = run;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (files.exists(run_file(path))) return path;
  if (files.exists(path)) {
    return not_found(fmt::format("{} is not a run folder: it holds no run.json", clean(path)),
                     "give the folder that `paramedic run` named, or its name in --dir");
  }
  return no_run(fmt::format("there is no run {} in {}", clean(run), dir), dir,
                run_names(files, dir), run);
}

std::string run_or_path(FileSystem& files, const std::string& dir, const std::string& word) {
  const bool may_be_a_name = word.find('/') == std::string::npos && !files.exists(word);
  const std::string run = dir + "/" + word;
  return may_be_a_name && files.exists(run_file(run)) ? run : word;
}

Result<std::unique_ptr<store::RunReader>> open_run(const std::string& folder, Console& console) {
  const Result<bool> adopted = store::adopt_orphans(folder);
  // A folder that cannot be written, or a damaged one, may still be read as far as it goes; what
  // is wrong with it for reading is said by `open`.
  if (!adopted.ok()) {
    console.err << "paramedic: rings of " << clean(folder)
                << " were not adopted: " << adopted.status().message() << "\n";
  } else if (*adopted) {
    console.err << "paramedic: the agent of this run had died; what its rings held is stored now\n";
  }
  // Of a live run the last second may still be with the agent; what is on disk is shown anyway.
  (void)supervise::request_flush(folder, kFlushWaitMs);
  return store::RunReader::open(folder);
}

Result<std::unique_ptr<store::RunReader>> open_run(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const std::string folder, find_run(posix_file_system(), arguments.text("dir"),
                                                      arguments.positional("RUN")));
  return open_run(folder, console);
}

}  // namespace paramedic::cli
