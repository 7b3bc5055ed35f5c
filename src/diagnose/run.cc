#include "diagnose/run.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "diagnose/input.h"
#include "diagnose/scan.h"

namespace paramedic::diagnose {
namespace {

// What stands for the file in the evidence.
constexpr const char* kEndingName = "exit status";

std::string words_of(const Ending& ending) {
  if (!ending.said.empty()) return ending.said + "\n";
  if (!ending.signal) return "";
  const char* name = ::sigabbrev_np(*ending.signal);
  if (name == nullptr) return fmt::format("the job terminated with signal {}\n", *ending.signal);
  return fmt::format("the job terminated with signal SIG{} ({})\n", name,
                     ::sigdescr_np(*ending.signal));
}

// The logs say that all went well, or nothing.
void set_failed(const Ending& ending, Verdict& verdict) {
  const bool said_done = verdict.category == Category::kNoFailure;
  verdict.category = Category::kUnknown;
  verdict.domain = Domain::kUnknown;
  verdict.mechanism = "exit_code_alone";
  verdict.title = fmt::format("the job ended with exit code {} and its output does not tell why",
                              ending.exit_code.value_or(-1));
  verdict.retry = Retry::kUnknown;
  verdict.retry_reason = "the log does not tell whether the cause is still there";
  verdict.confidence = 0.3;
  verdict.fingerprint = "unknown:-:exit_code_alone";
  verdict.collect_next =
      said_done ? "the output says that the job is done: look at what runs after the training, and "
                  "at the exit code of the script around it"
                : "the output shows no error: look for logs that the job writes elsewhere, and at "
                  "what calls sys.exit or os._exit";
}

void set_finished(Diagnosis& diagnosis) {
  Verdict verdict;
  verdict.category = Category::kNoFailure;
  verdict.mechanism = "finished";
  verdict.title = info(Category::kNoFailure).title;
  verdict.retry = Retry::kNever;
  verdict.retry_reason = "there is nothing to repeat";
  verdict.confidence = 1;
  verdict.stage = diagnosis.timeline.doing;
  verdict.fingerprint = "no_failure:-:finished";
  verdict.fingerprint_exact = diagnosis.verdict.fingerprint_exact;
  diagnosis.verdict = std::move(verdict);
  diagnosis.other.clear();
}

Json part_of(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? Json(nullptr) : *found;
}

// A job that waits for its repair has not printed its traceback yet, but told us of it; one that
// could not be started never will.
std::string said_in(const Json& run) {
  const Json failure = part_of(run, "failure");
  const Json where = part_of(failure, "where");
  const Json exception = part_of(failure, "exception");
  if (string_or(run, "status", "") == "paused") {
    return fmt::format(
        "Traceback (most recent call last):\n  File \"{}\", line {}, in {}\n{}: {}\n",
        string_or(where, "file", "?"), integer_or(where, "line", 0),
        string_or(where, "function", "?"), string_or(exception, "type", ""),
        string_or(exception, "message", ""));
  }
  const Json evidence = part_of(failure, "evidence");
  if (!evidence.is_array() || evidence.empty()) return "";
  const bool is_ours = string_or(evidence.front(), "file", "") == kEndingName;
  return is_ours ? string_or(evidence.front(), "text", "") : "";
}

std::optional<int> number_of(const Json& run, const char* key) {
  const auto found = run.find(key);
  if (found == run.end() || !found->is_number_integer()) return std::nullopt;
  return static_cast<int>(integer_or(run, key, 0));
}

}  // namespace

Result<Diagnosis> diagnose_ended(const std::vector<std::string>& paths, const Ending& ending) {
  PARAMEDIC_ASSIGN(const Inputs inputs, find_inputs(paths));
  Scanner scanner(Catalog::builtin());
  for (const Input& input : inputs.found) {
    PARAMEDIC_ASSIGN(const auto source, open_input(input.path));
    PARAMEDIC_TRY(scanner.scan(input.path, input.rank, *source));
  }
  if (const std::string words = words_of(ending); !words.empty()) {
    PARAMEDIC_TRY(scanner.scan(kEndingName, -1, *text_source(words)));
  }
  Diagnosis diagnosis = resolve(Catalog::builtin(), scanner.take());
  Verdict& verdict = diagnosis.verdict;
  const bool tells_nothing = verdict.category == Category::kNoFailure || verdict.evidence.empty();
  if (ending.exit_code == 0) {
    set_finished(diagnosis);
  } else if (tells_nothing && (ending.exit_code || ending.signal)) {
    set_failed(ending, verdict);
  }
  return diagnosis;
}

bool is_run_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path + "/run.json", error);
}

Result<Diagnosis> diagnose_run(const std::string& folder) {
  const std::string path = folder + "/run.json";
  PARAMEDIC_ASSIGN(const std::string text, posix_file_system().read(path));
  PARAMEDIC_ASSIGN(const Json run, parse_json(text, path));
  return diagnose_ended({folder},
                        {number_of(run, "exit_code"), number_of(run, "signal"), said_in(run)});
}

}  // namespace paramedic::diagnose
