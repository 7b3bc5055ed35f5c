#pragma once
// How far the job had come: steps, saved checkpoints and phases from the lines before an event.
// One thread.

#include <string_view>

#include "diagnose/event.h"
#include "diagnose/signature.h"

namespace paramedic::diagnose {

// A line that says how a training goes on: a metric with its value, a progress bar.
bool tells_of_progress(std::string_view line);

class ProgressReader {
 public:
  explicit ProgressReader(const Catalog& catalog) : catalog_(catalog) {}

  // Reads whole lines that follow what was read before; of a long text the last ones only.
  void read(std::string_view text, Timeline& timeline);

 private:
  void read_line(std::string_view line, Timeline& timeline);
  void note_step(int64_t step, Timeline& timeline);
  void note_stage(const StageRule& rule, Timeline& timeline);

  const Catalog& catalog_;
  bool trained_ = false;
  size_t settled_ = 0;  // events before this one are known to be followed by progress, or not
};

}  // namespace paramedic::diagnose
