#include "cli/log_lines.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "diagnose/input.h"
#include "diagnose/lines.h"
#include "diagnose/text.h"
#include "supervise/output_times.h"

namespace paramedic::cli {
namespace {

using diagnose::Level;

constexpr size_t kLogFilesMax = 10'000;

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

Level level_of(std::string_view text, Level told) {
  if (told != Level::kNone) return told;
  if (contains_any(text, {"ERROR", "Error:", "CRITICAL", "FATAL", "Traceback (most recent"})) {
    return Level::kError;
  }
  return contains_any(text, {"WARNING", "Warning:", "WARN "}) ? Level::kWarning : Level::kInfo;
}

// One file of the log.
class LogFile {
 public:
  static Result<std::unique_ptr<LogFile>> open(const std::string& folder, const std::string& name,
                                               int world_size) {
    const std::string path = folder + "/" + name;
    PARAMEDIC_ASSIGN(auto source, diagnose::open_input(path));
    auto file = std::unique_ptr<LogFile>(new LogFile(std::move(source)));
    file->line_.file = name;
    file->times_ = supervise::read_output_times(path);
    // The one log of a job of several ranks holds all of them.
    file->rank_ = world_size > 1 ? -1 : diagnose::rank_of_path(name);
    PARAMEDIC_TRY(file->advance());
    return file;
  }

  [[nodiscard]] bool at_end() const { return at_end_; }
  [[nodiscard]] const LoggedLine& line() const { return line_; }

  Status advance() {
    diagnose::RawLine raw;
    PARAMEDIC_ASSIGN(const bool more, reader_.next(raw));
    at_end_ = !more;
    if (at_end_) return {};
    const std::string clean = diagnose::clean_line(raw.text);
    const diagnose::Prefixed prefixed = splitter_.split(clean);
    line_.number = raw.number;
    line_.time_ns = supervise::time_at(times_, raw.offset);
    line_.rank = prefixed.rank >= 0 ? prefixed.rank : rank_;
    line_.text = prefixed.text;
    // A traceback goes on while its lines are indented; the line that ends it names the exception.
    const bool goes_on = in_traceback_ && !prefixed.text.empty();
    line_.level = goes_on ? Level::kError : level_of(prefixed.text, prefixed.level);
    in_traceback_ = contains_any(prefixed.text, {"Traceback (most recent"}) ||
                    (goes_on && diagnose::indent_of(prefixed.text) > 0);
    return {};
  }

 private:
  explicit LogFile(std::unique_ptr<diagnose::ByteSource> source)
      : source_(std::move(source)), gate_({}), reader_(*source_, gate_) {}

  const std::unique_ptr<diagnose::ByteSource> source_;
  const diagnose::Gate gate_;
  diagnose::LineReader reader_;
  diagnose::PrefixSplitter splitter_;
  std::vector<supervise::OutputTime> times_;
  int rank_ = -1;
  bool in_traceback_ = false;
  bool at_end_ = false;
  LoggedLine line_;
};

Result<std::vector<std::unique_ptr<LogFile>>> open_logs(const std::string& folder, int world_size) {
  const auto names = posix_file_system().list(folder + "/logs");
  std::vector<std::unique_ptr<LogFile>> files;
  if (names.ok()) {
    for (const std::string& name : *names) {
      if (name.ends_with(".times") || files.size() >= kLogFilesMax) continue;
      PARAMEDIC_ASSIGN(auto file, LogFile::open(folder + "/logs", name, world_size));
      files.push_back(std::move(file));
    }
  }
  if (files.empty()) return not_found("the run in " + folder + " has no logs");
  return files;
}

}  // namespace

Status read_log_lines(const std::string& folder, int world_size, const store::StepTimes& steps,
                      const std::function<bool(const LoggedLine&)>& take) {
  PARAMEDIC_ASSIGN(const auto files, open_logs(folder, world_size));
  while (true) {
    LogFile* first = nullptr;
    for (const auto& file : files) {
      if (file->at_end()) continue;
      if (first == nullptr || file->line().time_ns < first->line().time_ns) first = file.get();
    }
    if (first == nullptr) return {};
    LoggedLine line = first->line();
    line.step = steps.step_at(line.rank, line.time_ns);
    if (!take(line)) return {};
    PARAMEDIC_TRY(first->advance());
  }
}

}  // namespace paramedic::cli
