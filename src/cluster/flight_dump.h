#pragma once
// Dumps of PyTorch's flight recorders (NCCL's and gloo's; JSON or pickle, which is read and never
// loaded): what each rank's process groups were asked to do. Nothing in a dump is trusted. Plain
// values; any thread.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "store/rows.h"

namespace paramedic::cluster {

constexpr size_t kDumpFilesMax = 20'000;
constexpr uint64_t kDumpBytesMax = 1ULL << 30;  // of one file
constexpr size_t kDumpEntriesMax = 1'000'000;   // of one file
constexpr size_t kDumpProblemsMax = 1000;       // told; what comes after is counted

struct FlightEntry {
  std::string group;     // the framework's name of the process group: "0"
  int64_t sequence = 0;  // collective_seq_id, or p2p_seq_id of a point-to-point operation
  bool point_to_point = false;
  std::string operation;  // "all_reduce"
  std::string backend;    // "gloo", "nccl"
  std::string dtypes;     // "Float", of several tensors "Float Long"; of the inputs
  std::vector<std::vector<int64_t>> input_sizes;
  std::vector<std::vector<int64_t>> output_sizes;
  bool completed = false;
  int64_t created_ns = 0;                // wall clock; 0 = not told
  double timeout_s = 0;                  // 0 = not told
  std::optional<store::CallSite> where;  // innermost line outside installed packages
};

struct FlightGroup {
  std::string description;     // "default_pg"
  std::vector<int32_t> ranks;  // empty when the dump does not tell
  int64_t last_enqueued = -1;  // -1 = not told
  int64_t last_completed = -1;
};

struct FlightDump {
  std::string path;
  int32_t rank = -1;
  std::string version;  // of the format: "2.10"
  std::map<std::string, FlightGroup> groups;
  std::vector<FlightEntry> entries;  // in the order of recording
};

// The rank comes from the dump where it tells it, else from the name: "rank_3", "rank-3.json",
// else its last number. kInvalidArgument when neither tells; kCorruption when the text is no dump.
Result<FlightDump> parse_flight_dump(Bytes bytes, const std::string& path);

struct FlightDumps {
  std::vector<FlightDump> dumps;      // by rank, each rank once
  std::vector<std::string> problems;  // files that could not be used, and why: one sentence each
  size_t problems_total = 0;
};

// Reads files and folders (to a depth of 8, sorted). A file that is no dump is a problem and the
// rest is read; kNotFound when a path does not exist, kInvalidArgument when no dump is left.
Result<FlightDumps> read_flight_dumps(FileSystem& files, const std::vector<std::string>& paths);

}  // namespace paramedic::cluster
