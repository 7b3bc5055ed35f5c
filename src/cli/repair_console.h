#pragma once
// The console of `paramedic attach`: shows a crash that waits, and turns what a person types into
// questions and repairs. What it talks to are two interfaces, so that a whole session is a test.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/crash_view.h"
#include "cli/line_editor.h"
#include "recovery/repair.h"

namespace paramedic::cli {

// A run whose agent answers.
class PausedRun {
 public:
  PausedRun() = default;
  PausedRun(const PausedRun&) = delete;
  PausedRun& operator=(const PausedRun&) = delete;
  virtual ~PausedRun() = default;

  // All crashes that wait, the longest first.
  virtual Result<std::vector<recovery::Crash>> look() = 0;
  // The value of an expression in a frame of the crash of `rank`, as text.
  virtual Result<std::string> ask(int rank, int frame, const std::string& expression) = 0;
  // What came of a repair (contract.md, `repair --json`).
  virtual Result<Json> repair(int rank, const recovery::Repair& repair) = 0;
};

class RepairConsole {
 public:
  RepairConsole(PausedRun& run, LineInput& input, Console& console, std::string run_cwd)
      : run_(run), input_(input), console_(console), cwd_(std::move(run_cwd)) {}

  // Until nothing waits any more or the person leaves; the exit code.
  Result<int> serve();

 private:
  struct Entry;
  static const std::vector<Entry>& entries();

  Status refresh();
  void select(size_t crash);
  void show_place();
  void execute(const std::string& line);
  void carry_out(const recovery::Repair& repair);
  void say(const std::string& text);
  std::vector<std::string> words_for(std::string_view line) const;

  void where(const std::string& rest);
  void stack(const std::string& rest);
  void up(const std::string& rest);
  void down(const std::string& rest);
  void frame(const std::string& rest);
  void locals(const std::string& rest);
  void print(const std::string& rest);
  void rank(const std::string& rest);
  void retry(const std::string& rest);
  void exec(const std::string& rest);
  void edit(const std::string& rest);
  void apply(const std::string& rest);
  void skip(const std::string& rest);
  void rewind(const std::string& rest);
  void rollback(const std::string& rest);
  void give_back(const std::string& rest);
  void abort(const std::string& rest);
  void help(const std::string& rest);
  void quit(const std::string& rest);

  // As the process counts: -1 is the frame that crashed. The outermost ones may have been left out.
  [[nodiscard]] int frame_from_end() const {
    return static_cast<int>(frame_) - static_cast<int>(std::max<size_t>(crash().frames.size(), 1));
  }
  [[nodiscard]] const recovery::Crash& crash() const { return crashes_[selected_]; }
  [[nodiscard]] CrashViewOptions view() const {
    return {console_.width, Paint(console_.color_out)};
  }

  PausedRun& run_;
  LineInput& input_;
  Console& console_;
  const std::string cwd_;  // of the job: its relative paths
  std::vector<recovery::Crash> crashes_;
  size_t selected_ = 0;
  size_t frame_ = 0;
  bool is_over_ = false;
};

}  // namespace paramedic::cli
