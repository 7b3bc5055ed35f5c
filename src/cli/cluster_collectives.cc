#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cli/cluster.h"
#include "cli/render_calls.h"
#include "cli/render_json.h"
#include "cli/runs.h"
#include "cli/text.h"
#include "cluster/hang.h"

namespace paramedic::cli {
namespace {

// Of contract.md, as `check` has it: 1 where something is wrong.
constexpr int kErrorCode = 1;

// The calls of a stored run, with all that tells where its ranks stand.
class StoredCalls : public store::RowSink {
 public:
  void on_event(const store::EventRow& row) override {
    seen(row.origin);
    job_.take(row);
  }
  void on_collective(const store::CollectiveRow& row) override {
    seen(row.origin);
    job_.take(row);
  }

  void add_to(cluster::CallBook& book) const {
    std::map<int32_t, int64_t> ranks;
    for (const int32_t rank : ranks_) ranks[rank] = newest_ns_;
    book.add(job_, ranks);
  }

 private:
  void seen(const store::Origin& origin) {
    ranks_.insert(origin.rank);
    newest_ns_ = std::max(newest_ns_, origin.time_ns);
  }

  cluster::Job job_;
  std::set<int32_t> ranks_;
  int64_t newest_ns_ = 0;
};

// A folder of a run, or its name in --dir.
std::optional<std::string> run_among(const Arguments& arguments) {
  const auto& words = arguments.positionals("PATH");
  FileSystem& files = posix_file_system();
  if (words.size() != 1) return std::nullopt;
  if (files.exists(words[0] + "/run.json")) return words[0];
  std::string named = arguments.text("dir") + "/" + words[0];
  if (!files.exists(words[0]) && files.exists(named + "/run.json")) return named;
  return std::nullopt;
}

Status read_run(const std::string& folder, cluster::CallBook& book, CallsView& view,
                Console& console) {
  PARAMEDIC_ASSIGN(const auto reader, open_run(folder, console));
  StoredCalls stored;
  PARAMEDIC_TRY(reader->replay(stored));
  stored.add_to(book);
  for (const store::Damage& damage : reader->damage()) {
    view.problems.push_back(
        fmt::format("{}, offset {}: {}", damage.file, damage.offset, damage.what));
  }
  view.problems_total = view.problems.size();
  view.source = "calls seen in the processes of a run";
  return {};
}

// Whose format differs from that of most.
void name_versions(const cluster::CallBook& book, cluster::DumpProblems& problems) {
  const auto& versions = book.versions();
  if (versions.size() < 2) return;
  const auto most = std::max_element(
      versions.begin(), versions.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  for (const auto& [version, ranks] : versions) {
    if (version == most->first) continue;
    problems.add(fmt::format("{}: dumped in format {}, the others in {}; names of calls may differ",
                             cluster::name_ranks(ranks), version.empty() ? "unknown" : version,
                             most->first.empty() ? "unknown" : most->first));
  }
}

Status read_dumps(const std::vector<std::string>& words, cluster::CallBook& book, CallsView& view) {
  std::vector<int32_t> empty;
  const auto take = [&](const cluster::FlightDump& dump) {
    if (dump.entries.empty()) empty.push_back(dump.rank);
    book.add(dump);
  };
  PARAMEDIC_ASSIGN(cluster::DumpProblems problems,
                   cluster::read_flight_dumps(posix_file_system(), words, take));
  name_versions(book, problems);
  if (!empty.empty()) {
    std::sort(empty.begin(), empty.end());
    problems.add(fmt::format("the dump of {} holds no call: was TORCH_FR_BUFFER_SIZE set in it?",
                             cluster::name_ranks(empty)));
  }
  view.problems = std::move(problems.told);
  view.problems_total = problems.total;
  view.source = "dumps of flight recorders";
  return {};
}

Result<int> run_collectives(const Arguments& arguments, Console& console) {
  cluster::CallBook book;
  CallsView view;
  if (const auto run = run_among(arguments)) {
    PARAMEDIC_TRY(read_run(*run, book, view, console));
  } else {
    PARAMEDIC_TRY(read_dumps(arguments.positionals("PATH"), book, view));
  }
  book.settle();
  view.ranks = book.ranks().size();
  view.calls = book.calls();
  view.verdict = cluster::judge_calls(
      book, fmt::format("the {} of {}", view.source, counted(view.ranks, "rank")));
  bool any_error = false;
  for (const rules::Finding& finding : view.verdict.findings) {
    any_error = any_error || finding.severity == rules::Severity::kError;
  }
  if (arguments.flag("json")) {
    console.out << to_text(calls_json(view)) << "\n";
  } else {
    console.out << calls_text(view, Paint(console.color_out), console.width);
  }
  return any_error ? kErrorCode : 0;
}

}  // namespace

Command cluster_collectives_command() {
  Command command;
  command.name = "collectives";
  command.summary = "who is missing or calls something else, from dumps or a run";
  command.about =
      "Joins what the ranks of a job called, by process group and number: which rank has not "
      "come to a collective, which called another operation, type or size, which waits for which. "
      "PATH is a dump of PyTorch's flight recorder (JSON, or a pickle, which is read and never "
      "loaded), a folder of them, or a pattern; or one run of Paramedic, by its folder or its "
      "name in --dir. Dumps that are damaged, missing or there twice are named, and the others "
      "are compared. Lines are told where the dump has stacks, as pickles have.\n\n"
      "PyTorch writes dumps when TORCH_FR_BUFFER_SIZE and TORCH_FR_DUMP_TEMP_FILE are set. "
      "Exit code 1 when something is wrong.";
  command.options = {json_option(), dir_option()};
  command.positionals = {{.name = "PATH",
                          .help = "dumps, folders and patterns, or one run",
                          .required = true,
                          .many = true}};
  command.examples = {
      {"paramedic cluster collectives /tmp/nccl_trace_rank_*", "the dumps of all ranks"},
      {"paramedic cluster collectives dumps/ --json", "for a script"},
      {"paramedic cluster collectives digits-3", "what a run of Paramedic saw"}};
  command.run = run_collectives;
  return command;
}

}  // namespace paramedic::cli
