#pragma once
// How a node of a job stands: its processes, and up to when its rows are stored. The agent puts it
// into its run folder twice a second (look.json), and it travels with the rows. Plain values.

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "cluster/moment.h"

namespace paramedic::nodes {

// What a node's clock shows more than the collector's, and how far that may be wrong.
struct ClockOffset {
  int64_t offset_ns = 0;
  int64_t error_ns = 0;
};

struct Look {
  cluster::Moment moment;
  // All rows older than this are in the run folder, but for calls that are not left yet.
  int64_t stored_ns = 0;
  bool ended = false;  // nothing will come any more
  std::optional<ClockOffset> clock;

  [[nodiscard]] Json to_json() const;
  // The numbers are not trusted: at most 4096 processes are taken.
  static Result<Look> from_json(const Json& json);
};

inline constexpr const char* kLookFile = "look.json";

// Replaces `run_dir`/look.json, without syncing it: it is of worth for seconds only.
Status write_look(const std::string& run_dir, const std::string& text);
// kNotFound before the first one.
Result<Look> read_look(const std::string& run_dir);

}  // namespace paramedic::nodes
