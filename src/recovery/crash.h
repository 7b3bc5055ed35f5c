#pragma once
// A crash as a process of the job told it: an exception that nobody up the stack would handle,
// while all frames still stand. The process is not trusted: what is read here is bounded and is
// only text and numbers. Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "diagnose/verdict.h"

namespace paramedic::recovery {

// One name of a frame, described by the process without running the job's code.
struct Variable {
  std::string name;
  std::string type;   // "Tensor", "list"
  std::string value;  // short; of a tensor its shape, dtype, device and what is not finite
};

struct SourceLine {
  int32_t number = 0;
  std::string text;
};

// A frame of the job's own files.
struct Frame {
  std::string file;
  std::string function;
  int32_t line = 0;
  bool is_loop_header = false;
  std::vector<SourceLine> source;  // around `line`
  std::vector<Variable> variables;
};

// What makes two crashes the same fault: one repair serves both.
struct Fault {
  std::string exception;
  std::string file;
  int32_t line = 0;
  std::string source;  // hash of the file's text as it runs

  auto operator<=>(const Fault&) const = default;
};

struct Crash {
  int32_t rank = 0;
  int32_t pid = 0;
  std::string host;
  std::string thread;
  std::optional<int64_t> step;
  int32_t repeats = 0;    // the same exception at the same place with no progress, 0 at first
  std::string exception;  // its type, as in a traceback: "torch.OutOfMemoryError"
  std::vector<std::string> bases;  // names of the classes that it derives from, itself first
  std::string message;
  std::optional<int32_t> error_number;  // of an OSError
  std::optional<int32_t> http_status;   // of an exception that carries a response
  std::string traceback;
  std::string source_hash;  // of the crashed frame's file
  // Kinds of repairs that the process itself wants, the first that it can: a rule's action.
  std::vector<std::string> asks;
  std::vector<Frame> frames;  // outermost first; the last one crashed

  // kInvalidArgument when the exception is missing; what else is missing or of another type is
  // left at its default.
  static Result<Crash> from_json(const Json& json);
  [[nodiscard]] Json to_json() const;

  // The crashed frame; nothing when the crash has no frame of the job's own files.
  [[nodiscard]] const Frame* place() const { return frames.empty() ? nullptr : &frames.back(); }
  [[nodiscard]] Fault fault() const;
  // What `diagnose` would say of the printed traceback: the category, the stage.
  [[nodiscard]] diagnose::Verdict judged() const;
  // As contract.md has it under `failure`.
  [[nodiscard]] Json verdict() const;
};

// "train.py:31 in forward", "" where there is no frame.
std::string place_text(const Crash& crash);

}  // namespace paramedic::recovery
