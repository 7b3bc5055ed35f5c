#pragma once
// Where log text comes from: files (plain, gzip, zstd, xz), folders, globs, stdin. Reading keeps
// one buffer, whatever the size of the input.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace paramedic::diagnose {

struct Input {
  std::string path;  // "-" is stdin
  int rank = -1;     // that the name tells ("rank-3.err", "3/stderr.log"), or -1
};

struct Inputs {
  std::vector<Input> found;
  std::vector<std::string> skipped;  // "PATH: why", of what a folder holds beside logs
};

// Files, folders (searched to a depth of 8, at most 20,000 files; of a run folder its logs) and
// globs, in the order given, each folder sorted. A path that does not exist or a glob that matches
// nothing is an error; a folder without logs gives no input.
Result<Inputs> find_inputs(const std::vector<std::string>& paths);

// Whether a file in a folder counts as a log: all do but hidden ones and those of other kinds.
bool is_log_name(const std::string& name);

// The rank that a file's name tells, or -1.
int rank_of_path(const std::string& path);

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;
  // Fills the front of `to`; 0 only at the end.
  virtual Result<size_t> read(std::span<char> to) = 0;
};

// Compression is told by the first bytes, not by the name.
Result<std::unique_ptr<ByteSource>> open_input(const std::string& path);
std::unique_ptr<ByteSource> text_source(std::string text);

}  // namespace paramedic::diagnose
