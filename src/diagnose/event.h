#pragma once
// What a log tells, once its lines are read: events in order, and how far the job had come. Plain
// values.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/category.h"
#include "diagnose/prefix.h"
#include "diagnose/signature.h"
#include "diagnose/traceback.h"

namespace paramedic::diagnose {

struct Event {
  Role role = Role::kRoot;
  const Signature* signature = nullptr;  // null: an exception that no signature knows
  std::optional<Exception> exception;
  std::optional<Exception> dump;  // of a line: the stack that was printed behind it
  std::string text;               // the line as it stands in the log, clean
  size_t file = 0;                // index in Timeline::files
  uint64_t line = 0;              // from 1
  uint64_t offset = 0;
  int rank = -1;
  std::string writer;
  double time_s = std::numeric_limits<double>::quiet_NaN();
  Level level = Level::kNone;
  // What the job was doing, by the log lines before.
  Stage doing = Stage::kUnknown;
  bool doing_is_hint = false;  // a bar or a sentence said so, no line of the job's own
  int64_t step = -1;
  bool went_on = false;  // the job made progress afterwards
  bool is_told = false;  // a sentence names the exception: who wrote it had caught it
};

struct Timeline {
  std::vector<std::string> files;
  std::vector<Event> events;  // in the order in which they were read
  int64_t last_step = -1;
  int64_t checkpoint_step = -1;  // the last step known to be saved
  Stage doing = Stage::kUnknown;
  bool doing_is_hint = false;
  bool made_progress = false;
  bool progress_as_error = false;  // lines of the error level told of progress alone
  bool finished = false;           // the job says that it is done
  uint64_t finished_at = 0;        // how many events were known then
  uint64_t lines = 0;
  uint64_t bytes = 0;
  uint64_t events_dropped = 0;
};

}  // namespace paramedic::diagnose
