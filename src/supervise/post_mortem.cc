#include "supervise/post_mortem.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "diagnose/text.h"

namespace paramedic::supervise {
namespace {

// Beneath this the log's verdict says less than an exception that was seen as it was raised.
constexpr double kSure = 0.5;

uint64_t bytes_of_logs(const std::string& run_dir) {
  uint64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(run_dir + "/logs", error), end; !error && at != end;
       at.increment(error)) {
    const uint64_t size = at->file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

// Whether the log shows the very exception that the crashed process told of.
bool is_same(const Json& crash, const diagnose::Verdict& verdict) {
  const auto exception = crash.find("exception");
  if (exception == crash.end() || verdict.exception_type.empty()) return false;
  return diagnose::last_component(string_or(*exception, "type", "")) ==
         diagnose::last_component(verdict.exception_type);
}

}  // namespace

Result<Json> post_mortem(const store::RunInfo& info, const diagnose::Ending& ending,
                         const Json& crash) {
  const uint64_t bytes = bytes_of_logs(info.dir);
  if (bytes > kJudgedBytesMax) {
    return exhausted(fmt::format("{} MB of output are too much to be judged at once", bytes >> 20U),
                     "paramedic diagnose " + info.dir);
  }
  PARAMEDIC_ASSIGN(const diagnose::Diagnosis diagnosis,
                   diagnose::diagnose_ended({info.dir}, ending));
  const diagnose::Verdict& verdict = diagnosis.verdict;
  Json failure = to_json(verdict);
  if (!crash.is_object()) return failure;
  if (verdict.category != diagnose::Category::kUnknown && verdict.confidence >= kSure &&
      !is_same(crash, verdict)) {
    return failure;  // what crashed was not the cause
  }
  // The process knew its frames and values; the log knows what was printed, and of other ranks.
  Json merged = crash;
  for (const char* key : {"first_failing_rank", "ranks", "evidence", "ruled_out", "lost_steps"}) {
    const Json& known = failure[key];
    if (!known.is_null() && !(known.is_array() && known.empty())) merged[key] = known;
  }
  return merged;
}

}  // namespace paramedic::supervise
