#include "recovery/crash.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/lines.h"
#include "base/path.h"
#include "diagnose/judge.h"

namespace paramedic::recovery {
namespace {

// A message is at most 64 KiB, so these only keep one field from taking the room of all others.
constexpr size_t kTextBytesMax = 16 << 10;
constexpr size_t kNameBytesMax = 512;
constexpr size_t kListMax = 400;
// What a process may ask for itself: needs nothing more, and ends nothing.
constexpr std::array<std::string_view, 4> kAskable = {"rollback", "rewind", "skip", "retry"};

std::string text_of(const Json& json, const char* key, size_t bytes_max = kNameBytesMax) {
  std::string text = string_or(json, key, "");
  if (text.size() > bytes_max) text.resize(bytes_max);
  return text;
}

int32_t int_of(const Json& json, const char* key, int32_t fallback) {
  const int64_t value = integer_or(json, key, fallback);
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  return value < 0 || value > kMax ? fallback : static_cast<int32_t>(value);
}

std::optional<int32_t> optional_int(const Json& json, const char* key) {
  const int32_t value = int_of(json, key, -1);
  return value < 0 ? std::nullopt : std::optional(value);
}

template <typename Item>
std::vector<Item> list_of(const Json& json, const char* key, Item (*item_of)(const Json&)) {
  std::vector<Item> items;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return items;
  const size_t count = std::min(found->size(), kListMax);
  items.reserve(count);
  for (size_t i = 0; i < count; i++) items.push_back(item_of((*found)[i]));
  return items;
}

Variable variable_of(const Json& json) {
  return {text_of(json, "name"), text_of(json, "type"), text_of(json, "value")};
}

SourceLine source_line_of(const Json& json) {
  return {int_of(json, "line", 0), text_of(json, "text")};
}

Frame frame_of(const Json& json) {
  if (!json.is_object()) return {};
  Frame frame;
  frame.file = text_of(json, "file", kTextBytesMax);
  frame.function = text_of(json, "function");
  frame.line = int_of(json, "line", 0);
  frame.is_loop_header = bool_or(json, "is_loop_header", false);
  frame.source = list_of(json, "source", source_line_of);
  frame.variables = list_of(json, "variables", variable_of);
  return frame;
}

std::string name_of(const Json& json) {
  return json.is_string() ? json.get<std::string>().substr(0, kNameBytesMax) : "";
}

Json frame_json(const Frame& frame) {
  Json source = Json::array();
  for (const SourceLine& line : frame.source) {
    source.push_back({{"line", line.number}, {"text", line.text}});
  }
  Json variables = Json::array();
  for (const Variable& variable : frame.variables) {
    variables.push_back(
        {{"name", variable.name}, {"type", variable.type}, {"value", variable.value}});
  }
  return {{"file", frame.file},          {"function", frame.function},
          {"line", frame.line},          {"is_loop_header", frame.is_loop_header},
          {"source", std::move(source)}, {"variables", std::move(variables)}};
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty() && lines.size() < kListMax) {
    const std::string_view line = take_line(text);
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::string code_of(const Frame& frame) {
  for (const SourceLine& line : frame.source) {
    if (line.number == frame.line) return line.text;
  }
  return "";
}

// The exceptions of the printed traceback, the one that was raised first in front.
std::vector<diagnose::Exception> chain_of(const Crash& crash) {
  diagnose::TracebackParser parser;
  uint64_t number = 0;
  for (const std::string_view line : lines_of(crash.traceback)) parser.feed({line, ++number, 0});
  parser.finish();
  std::vector<diagnose::Exception> chain;
  while (auto exception = parser.take()) chain.push_back(std::move(*exception));
  if (chain.empty()) {
    chain.emplace_back();
    chain.back().type = crash.exception;
    chain.back().message = crash.message;
    for (const Frame& frame : crash.frames) {
      chain.back().frames.push_back({frame.file, frame.line, frame.function, code_of(frame)});
    }
  }
  return chain;
}

Json evidence_of(const Crash& crash) {
  Json evidence = Json::array();
  for (const std::string_view line : lines_of(crash.traceback)) {
    evidence.push_back({{"file", nullptr},
                        {"line", nullptr},
                        {"rank", crash.rank},
                        {"role", diagnose::name(diagnose::Role::kRoot)},
                        {"text", std::string(line)}});
  }
  return evidence;
}

}  // namespace

Result<Crash> Crash::from_json(const Json& json) {
  Crash crash;
  crash.exception = text_of(json, "exception");
  if (crash.exception.empty()) return invalid_argument("a crash without its exception");
  crash.rank = int_of(json, "rank", 0);
  crash.pid = int_of(json, "pid", 0);
  crash.host = text_of(json, "host");
  crash.thread = text_of(json, "thread");
  const int64_t step = integer_or(json, "step", -1);
  if (step >= 0) crash.step = step;
  crash.repeats = int_of(json, "repeats", 0);
  crash.bases = list_of(json, "bases", name_of);
  crash.message = text_of(json, "message", kTextBytesMax);
  crash.error_number = optional_int(json, "errno");
  crash.http_status = optional_int(json, "http_status");
  crash.traceback = text_of(json, "traceback", kTextBytesMax);
  crash.source_hash = text_of(json, "source_hash");
  crash.frames = list_of(json, "frames", frame_of);
  crash.asks = list_of(json, "asks", name_of);
  std::erase_if(crash.asks, [](const std::string& kind) {
    return std::find(kAskable.begin(), kAskable.end(), kind) == kAskable.end();
  });
  return crash;
}

Json Crash::to_json() const {
  Json list = Json::array();
  for (const Frame& frame : frames) list.push_back(frame_json(frame));
  return {{"rank", rank},
          {"pid", pid},
          {"host", host},
          {"thread", thread},
          {"step", or_null(step)},
          {"repeats", repeats},
          {"exception", exception},
          {"bases", bases},
          {"message", message},
          {"errno", or_null(error_number)},
          {"http_status", or_null(http_status)},
          {"traceback", traceback},
          {"source_hash", source_hash},
          {"frames", std::move(list)},
          {"asks", asks}};
}

Fault Crash::fault() const {
  Fault fault{exception, "", 0, source_hash};
  if (place() != nullptr) {
    fault.file = place()->file;
    fault.line = place()->line;
  }
  return fault;
}

diagnose::Verdict Crash::judged() const {
  diagnose::LiveCrash live;
  live.chain = chain_of(*this);
  live.rank = rank;
  live.step = step.value_or(-1);
  return diagnose::judge(std::move(live));
}

Json Crash::verdict() const {
  Json verdict = diagnose::to_json(judged());
  // What the process told is exact; the printed traceback may be cut.
  verdict["title"] = message.empty() ? exception : exception + ": " + message;
  verdict["first_failing_rank"] = rank;
  verdict["ranks"] = Json::array({rank});
  verdict["exception"] = {{"type", exception}, {"message", message}};
  verdict["where"] = nullptr;
  if (place() != nullptr) {
    verdict["where"] = {
        {"file", place()->file}, {"line", place()->line}, {"function", place()->function}};
  }
  verdict["evidence"] = evidence_of(*this);
  return verdict;
}

std::string place_text(const Crash& crash) {
  const Frame* place = crash.place();
  if (place == nullptr) return "";
  return fmt::format("{}:{} in {}", base_name(place->file), place->line, place->function);
}

}  // namespace paramedic::recovery
