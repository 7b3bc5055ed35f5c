#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "cli/cluster.h"
#include "cli/render_json.h"
#include "cli/runs.h"
#include "cli/text.h"
#include "cluster/lint/difference.h"
#include "cluster/lint/settings_book.h"

namespace paramedic::cli {
namespace {

// What the events of a stored run tell of the environments of its processes.
class StoredSubjects : public store::RowSink {
 public:
  void on_event(const store::EventRow& row) override {
    if (book_.take(row) || row.kind != "facts") return;
    const auto json = parse_json(row.json, "an event");
    if (json.ok()) facts_[row.origin.pid] = {row.origin.rank, *json};
  }

  // Of the ranks of all jobs of the run; a rank that nobody saw start has its facts alone.
  [[nodiscard]] std::vector<cluster::Subject> take() {
    std::vector<cluster::Subject> subjects;
    for (const cluster::JobSettings& job : book_.jobs()) {
      for (const cluster::Setting& setting : job.processes) {
        if (setting.is_launcher()) continue;
        add_setting(setting, subjects.emplace_back());
        const auto told = facts_.find(setting.pid);
        if (told == facts_.end()) continue;
        add_facts(told->second.second, subjects.back());
        facts_.erase(told);
      }
    }
    for (const auto& [pid, told] : facts_) {
      cluster::Subject& subject = subjects.emplace_back();
      subject.rank = told.first;
      subject.name = fmt::format("rank {}", told.first);
      add_facts(told.second, subject);
    }
    return subjects;
  }

 private:
  cluster::SettingsBook book_;
  std::map<int32_t, std::pair<int32_t, Json>> facts_;  // by pid
};

Result<std::vector<cluster::Subject>> subjects_of(const Arguments& arguments, Console& console) {
  const auto& words = arguments.positionals("RUN");
  FileSystem& files = posix_file_system();
  // One word that is no file is a run: a name, or a folder.
  const bool is_run = words.empty() || (words.size() == 1 && words[0] != "-" &&
                                        (!files.exists(words[0]) || files.list(words[0]).ok()));
  if (is_run) {
    PARAMEDIC_ASSIGN(const std::string folder,
                     find_run(files, arguments.text("dir"), words.empty() ? "" : words[0]));
    PARAMEDIC_ASSIGN(const auto reader, open_run(folder, console));
    StoredSubjects stored;
    PARAMEDIC_TRY(reader->replay(stored));
    return stored.take();
  }
  PARAMEDIC_ASSIGN(const cluster::JobSettings job, read_job_settings(words));
  std::vector<cluster::Subject> subjects;
  for (const cluster::Setting& setting : job.processes) {
    add_setting(setting, subjects.emplace_back());
  }
  return subjects;
}

Json difference_json(const cluster::Difference& difference) {
  Json groups = Json::array();
  for (const auto& group : difference.groups) {
    Json who = Json::array();
    for (const cluster::Subject* subject : group.who) who.push_back(subject->name);
    groups.push_back({{"value", group.value}, {"who", std::move(who)}});
  }
  Json where = nullptr;
  if (difference.where) {
    where = {{"file", difference.where->file}, {"line", difference.where->line}};
  }
  return {{"key", difference.key},
          {"severity", rules::severity_name(difference.severity)},
          {"groups", std::move(groups)},
          {"where", std::move(where)}};
}

Result<int> run_env_diff(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const auto subjects, subjects_of(arguments, console));
  const auto all = cluster::differences(subjects);
  if (arguments.flag("json")) {
    Json list = Json::array();
    for (const auto& difference : all) list.push_back(difference_json(difference));
    console.out << to_text({{"schema", kJsonSchema},
                            {"processes", subjects.size()},
                            {"differences", std::move(list)}})
                << "\n";
    return 0;
  }
  const Paint paint(console.color_out);
  for (const auto& difference : all) {
    const bool is_error = difference.severity == rules::Severity::kError;
    const bool is_info = difference.severity == rules::Severity::kInfo;
    const Style style = is_error ? Style::kError : is_info ? Style::kInfo : Style::kWarning;
    console.out << paint(style, pad(rules::severity_name(difference.severity), 7)) << "  ";
    bool first = true;
    std::string text = clean(cluster::difference_text(difference));
    if (difference.where) {
      text += fmt::format(" ({}:{})", clean(difference.where->file), difference.where->line);
    }
    for (const std::string& line : wrap(text, console.width - 9)) {
      console.out << (std::exchange(first, false) ? "" : "         ") << line << "\n";
    }
  }
  console.out << fmt::format(
      "{} of {} compared\n",
      all.empty() ? "no difference" : fmt::format("{} differences", all.size()),
      fmt::format("{} processes", subjects.size()));
  return 0;
}

}  // namespace

Command cluster_env_diff_command() {
  Command command;
  command.name = "env-diff";
  command.summary = "what differs between the environments of the ranks";
  command.about =
      "Compares what the ranks of a run had: versions of Python, PyTorch and every imported "
      "package, drivers, variables, limits, and the code of the job's own modules line by line. "
      "Prints only what differs, the minority first; values of variables that are not known to "
      "be harmless are compared, but neither stored nor shown. Instead of a run it takes files "
      "as `cluster lint` does.";
  command.options = {json_option(), dir_option()};
  command.positionals = {{.name = "RUN",
                          .help =
                              "a name in --dir or a path, the newest run when left out; or files: "
                              "environments of the ranks",
                          .many = true}};
  command.examples = {{"paramedic cluster env-diff digits-3", "the ranks of a run"},
                      {"paramedic cluster env-diff a.env b.env", "the output of `env` twice"}};
  command.run = run_env_diff;
  return command;
}

}  // namespace paramedic::cli
