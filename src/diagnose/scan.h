#pragma once
// The one pass over the input: lines → writers → structures → events with roles. Memory does not
// grow with the input. One thread.

#include <map>
#include <string>
#include <vector>

#include "diagnose/event.h"
#include "diagnose/input.h"
#include "diagnose/lines.h"
#include "diagnose/prefix.h"
#include "diagnose/progress.h"
#include "diagnose/signature.h"
#include "diagnose/traceback.h"

namespace paramedic::diagnose {

class Scanner {
 public:
  explicit Scanner(const Catalog& catalog);

  // Reads one input to its end. `rank` is what its name tells, or -1.
  Status scan(const std::string& name, int rank, ByteSource& source);
  // Whether something stands there, up to now, that the job has not got over.
  [[nodiscard]] bool has_cause() const;
  // After the last input.
  [[nodiscard]] Timeline take() { return std::move(timeline_); }

  static constexpr size_t kEventsMax = 8192;
  static constexpr size_t kEventsOfKindMax = 1024;

 private:
  // All lines of one writer.
  struct Writer {
    TracebackParser parser;
    int rank = -1;
    double time_s = 0;
    Level level = Level::kNone;
  };
  static constexpr size_t kWritersMax = 4096;
  // Lines looked at after the last one that belonged to a structure.
  static constexpr int kFollow = 64;

  void handle(const RawLine& raw);
  // True when the line is part of a traceback.
  bool feed(Writer& writer, const LogLine& line);
  void add_unfolded(const std::vector<std::string>& lines, const LogLine& line,
                    const std::string& name, Writer& writer);
  void add_told(const LogLine& line, const Prefixed& prefixed, const std::string& name,
                const Writer& writer);
  void drain(const std::string& name, Writer& writer);
  void add_exception(Exception exception, const std::string& name, const Writer& writer);
  void add_dump(Exception dump, const std::string& name);
  void add_line(const Signature& signature, const LogLine& line, const Prefixed& prefixed,
                const std::string& name, const Writer& writer);
  void add(Event event);

  const Catalog& catalog_;
  ProgressReader progress_;
  Timeline timeline_;
  PrefixSplitter splitter_;
  std::map<std::string, Writer, std::less<>> writers_;
  std::map<std::string, size_t, std::less<>> kinds_;
  size_t open_ = 0;  // parsers of writers that are inside a structure
  int file_rank_ = -1;
  uint64_t progress_read_to_ = 0;
};

}  // namespace paramedic::diagnose
