#pragma once
// Dumps of PyTorch's flight recorders (NCCL's and gloo's; JSON or pickle, which is read and never
// loaded): what each rank's process groups were asked to do. Nothing in a dump is trusted. Plain
// values; any thread.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "store/rows.h"

namespace paramedic::cluster {

constexpr size_t kDumpFilesMax = 20'000;
constexpr uint64_t kDumpBytesMax = 1ULL << 30;  // of one file
constexpr size_t kDumpEntriesMax = 1'000'000;   // of one file
constexpr size_t kDumpGroupsMax = 65'536;       // of one file
constexpr size_t kDumpProblemsMax = 1000;       // told; what comes after is counted
constexpr int32_t kDumpRankMax = (1 << 24) - 1;

// What was called: the same for all calls of one kind.
struct FlightCall {
  std::string operation;  // "all_reduce", "send 0->1"
  std::string backend;    // "gloo", "nccl"
  std::string dtypes;     // "Float", of several tensors "Float Long"; of the inputs
  std::vector<std::vector<int64_t>> input_sizes;
};

struct FlightEntry {
  uint32_t group = 0;    // in FlightDump::groups
  uint32_t call = 0;     // in FlightDump::calls
  uint32_t site = 0;     // in FlightDump::sites
  int64_t sequence = 0;  // collective_seq_id, or p2p_seq_id of a point-to-point operation
  bool point_to_point = false;
  bool completed = false;
  int64_t created_ns = 0;  // wall clock; 0 = not told
};

struct FlightGroup {
  std::string name;            // the framework's: "0"
  std::string description;     // "default_pg"
  std::vector<int32_t> ranks;  // ascending; empty when the dump does not tell
  int64_t last_enqueued = -1;  // -1 = not told
  int64_t last_completed = -1;
};

struct FlightDump {
  std::string path;
  int32_t rank = -1;
  std::string version;     // of the format: "2.10"
  int64_t written_ns = 0;  // of the file, wall clock; 0 = not known
  // Nothing had been overwritten: what is not in it was never called.
  bool is_whole = false;
  // Number of the first entry among all that the process has recorded, where the entries follow
  // one another; else -1.
  int64_t first_record = -1;
  std::vector<FlightGroup> groups;  // each name once
  std::vector<FlightCall> calls;    // each once
  // Innermost lines outside of installed packages, each once; the first stands for "not told".
  std::vector<store::CallSite> sites{store::CallSite{}};
  std::vector<FlightEntry> entries;  // in the order of recording
  size_t entries_left_out = 0;       // over kDumpEntriesMax, or of too many groups
};

// The rank comes from the dump where it tells it, else from the name: "rank_3", "rank-3.json",
// else its last number. kInvalidArgument when neither tells; kCorruption when the text is no dump.
Result<FlightDump> parse_flight_dump(Bytes bytes, const std::string& path);

// Files that could not be used, and why: one sentence each.
struct DumpProblems {
  std::vector<std::string> told;
  size_t total = 0;

  void add(std::string text) {
    if (++total <= kDumpProblemsMax) told.push_back(std::move(text));
  }
};

// Reads files, folders (to a depth of 8, sorted) and patterns ("dumps/*rank_?.json"), several files
// at a time, and passes one dump of each rank to `take`, in the order of the files and from the
// thread that calls. A file that is no dump is a problem and the rest is read; kNotFound when a
// path does not exist, kInvalidArgument when no dump is left.
Result<DumpProblems> read_flight_dumps(FileSystem& files, const std::vector<std::string>& paths,
                                       const std::function<void(const FlightDump&)>& take);

}  // namespace paramedic::cluster
