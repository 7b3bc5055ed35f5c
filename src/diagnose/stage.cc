#include "diagnose/stage.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr uint64_t kLinesBehind = 64;

// Of a path the last parts: those before are somebody's folders and mean nothing.
std::string_view short_path(std::string_view path) {
  constexpr int kParts = 4;
  constexpr std::string_view kPackages = "-packages/";
  if (const size_t packages = path.rfind(kPackages); packages != std::string_view::npos) {
    return path.substr(packages + kPackages.size());
  }
  size_t at = path.size();
  for (int i = 0; i < kParts && at != std::string_view::npos && at > 0; ++i) {
    at = path.find_last_of("/\\", at - 1);
  }
  return at == std::string_view::npos || at == 0 ? path : path.substr(at + 1);
}

bool is_statement(const Frame& frame) {
  const std::string_view code = frame.code;
  return code.starts_with("import ") || (code.starts_with("from ") && contains(code, " import "));
}

// A page that shows a log as its own text drops the underscores around a name.
std::string_view whole_name(std::string_view function) {
  struct Special {
    std::string_view bare, whole;
  };
  static constexpr Special kSpecial[] = {
      {"init", "__init__"},       {"getitem", "__getitem__"},   {"del", "__del__"},
      {"iter", "__iter__"},       {"setstate", "__setstate__"}, {"getattr", "__getattr__"},
      {"setattr", "__setattr__"}, {"len", "__len__"},           {"enter", "__enter__"}};
  for (const Special& special : kSpecial) {
    if (function == special.bare) return special.whole;
  }
  return function;
}

// The top level of a package runs where it is imported, and nowhere else.
bool is_package(const Frame& frame) {
  const std::string_view name = base_name(frame.file);
  const bool is_top = frame.function == "<module>" || frame.function.empty();
  return is_top && (name == "__init__.py" || name == "init.py" || name == ".py");
}

// What the imports in a stack say of it.
enum class Imports : uint8_t {
  kNone,
  kInside,  // something that runs has to import first: the phase is that of what runs
  kFirst,   // nothing ran but the top levels of modules
};

Imports imports_of(const Exception& exception) {
  const auto& frames = exception.frames;
  // One frame is what a loader of modules shows of itself, or all that a script has.
  if (frames.size() == 1 && !is_statement(frames[0])) return Imports::kNone;
  bool is_top_level = true;
  for (const Frame& frame : frames) {
    const bool imports = is_statement(frame) || is_package(frame) ||
                         contains(frame.file, "importlib") ||
                         contains(frame.code, "import_module(");
    if (frame.role != FrameRole::kLauncher && !contains(frame.file, "importlib")) {
      is_top_level = is_top_level && (frame.function == "<module>" || frame.function.empty() ||
                                      contains(frame.code, "import_module("));
    }
    if (imports) return is_top_level ? Imports::kFirst : Imports::kInside;
  }
  return Imports::kNone;
}

// The collectives of a process group are counted: the first few belong to its setup.
Stage stage_of_sequence(const std::string& text) {
  static const RE2 kSequence(
      R"((?:SeqNum|SequenceNumber)=(\d+)|detected by watchdog at work: (\d+))");
  constexpr int64_t kSetupMax = 16;
  std::string first, second;
  if (!RE2::PartialMatch(text, kSequence, &first, &second)) return Stage::kUnknown;
  const int64_t sequence = std::strtoll((first.empty() ? second : first).c_str(), nullptr, 10);
  return sequence <= kSetupMax ? Stage::kDistributed : Stage::kTrain;
}

// What the failure says itself ("training failed") or is about: a node of a graph, a checkpoint
// that is not there, an image that cannot be read.
StageFound stage_of_text(const Catalog& catalog, const Event& event) {
  const std::string all = event.exception ? subject_of(*event.exception) : event.text;
  const Subject whole(all);
  const Subject first(event.text);
  for (const StageRule& rule : catalog.stages()) {
    // Behind its first line a message may hold a person's sentences.
    const Subject& text = rule.telling > Telling::kHint ? whole : first;
    if (rule.text != nullptr && rule.text->occurs_in(text)) return {rule.stage, rule.telling};
  }
  return {};
}

// What happens inside a phase and still belongs to it. A forward pass inside the validation is
// validation, but a batch that is read inside it is data; a run of training holds every other
// phase.
bool holds(const StageFound& outer, const StageFound& within) {
  const Stage inner = within.stage;
  switch (outer.stage) {
    case Stage::kData:
      // To preprocess may be to let a model predict.
      return outer.telling == Telling::kAct || inner != Stage::kEvaluate;
    case Stage::kArguments:
    case Stage::kDistributed:
    case Stage::kExport:
    case Stage::kTeardown:
      return true;
    case Stage::kCheckpoint:
      return inner != Stage::kData;
    case Stage::kModel:
      return inner != Stage::kDistributed &&
             (inner != Stage::kData || within.telling == Telling::kSetting);
    case Stage::kEvaluate:
      if (inner == Stage::kData) return true;
      [[fallthrough]];
    case Stage::kValidate:
      return inner == Stage::kTrain || inner == Stage::kModel || inner == Stage::kEvaluate ||
             inner == Stage::kValidate || inner == Stage::kStart;
    case Stage::kTrain:
      return inner == Stage::kStart ||
             (outer.telling == Telling::kAct && inner != Stage::kCheckpoint &&
              inner != Stage::kTeardown && inner != Stage::kDistributed);
    default:
      return false;
  }
}

// From the outermost frame to the innermost: how the phase changes on the way.
void go_in(StageFound& outer, const StageFound& inner) {
  if (inner.telling <= Telling::kHint) {
    if (outer.telling == Telling::kNothing) outer = inner;
    return;
  }
  const bool evaluates = outer.stage == Stage::kTrain && outer.telling == Telling::kSetting &&
                         inner.stage == Stage::kEvaluate;
  if (outer.telling > Telling::kHint && outer.stage == inner.stage) {
    outer.telling = std::max(outer.telling, inner.telling);
  } else if (outer.telling > Telling::kHint && evaluates) {
    // To evaluate in the middle of a training is to validate; to predict may be part of a step.
    if (inner.telling == Telling::kAct) outer = {Stage::kValidate, Telling::kAct};
  } else if (outer.telling <= Telling::kHint || !holds(outer, inner)) {
    outer = inner;
  }
}

// The first rule that fits `text`, which is that of a frame.
StageFound stage_of_place(const Catalog& catalog, const std::string& text, bool is_native) {
  const StageRule* rule = is_native ? catalog.rule_of_native(text) : catalog.rule_of_frame(text);
  return rule == nullptr ? StageFound() : StageFound{rule->stage, rule->telling};
}

StageFound stage_of_frame(const Catalog& catalog, const Frame& frame) {
  const bool is_native = frame.role == FrameRole::kNative;
  const std::string path = with_slashes(frame.file);
  const std::string what = fmt::format(" | {} | {}", whole_name(frame.function), frame.code);
  // A script is called after one thing that it does, and does others before it.
  const bool is_script = !is_native && (frame.function == "<module>" || frame.function == "main");
  if (is_script) {
    const StageFound found = stage_of_place(catalog, what, is_native);
    if (found.telling > Telling::kHint) return found;
  }
  StageFound found = stage_of_place(catalog, std::string(short_path(path)) + what, is_native);
  if (is_script) found.telling = std::min(found.telling, Telling::kHint);
  return found;
}

bool is_preparation(Stage stage) {
  return stage == Stage::kStart || stage == Stage::kImport || stage == Stage::kArguments ||
         stage == Stage::kData || stage == Stage::kModel || stage == Stage::kDistributed;
}

// "src/predictor/gpu_predictor.cu(322): …": native code names the place of a check that failed. It
// may serve any phase, so that it is a hint at most.
StageFound stage_of_source(const Catalog& catalog, const std::string& text) {
  static const RE2 kPlace(R"(([\w./-]*\w\.(?:cc|cpp|cuh?|hp{0,2}))(?:\(|:)\d)");
  // The check's own macro may stand first.
  constexpr int kPlacesMax = 4;
  re2::StringPiece rest(text);
  StageFound best;
  Frame frame;
  for (int i = 0; i < kPlacesMax && RE2::FindAndConsume(&rest, kPlace, &frame.file); ++i) {
    const StageFound found = stage_of_frame(catalog, frame);
    if (found.telling != Telling::kNothing) best = {found.stage, Telling::kHint};
  }
  return best;
}

// Where failures of a kind happen when nothing else tells.
Stage usual_stage(const Event& event) {
  if (event.signature == nullptr) return Stage::kUnknown;
  switch (event.signature->category) {
    case Category::kSyntaxError:
      return Stage::kImport;
    case Category::kLibraryNotFound:
      return event.exception ? Stage::kImport : Stage::kUnknown;
    case Category::kScheduler:
      return Stage::kStart;
    case Category::kPortInUse:
      return Stage::kDistributed;
    case Category::kNetwork:
      // Ranks are reached by host and port, data and models by an address.
      return event.exception && !contains(event.exception->message, "://") &&
                     !contains(event.exception->message, "HTTP")
                 ? Stage::kDistributed
                 : Stage::kUnknown;
    case Category::kLossNan:
    case Category::kCollectiveMismatch:
      return Stage::kTrain;
    default:
      return Stage::kUnknown;
  }
}

// The number of the collective stands in one of the lines about it.
Stage stage_of_sequences(const Timeline& timeline, const Event& event) {
  if (const Stage own = stage_of_sequence(event.text); own != Stage::kUnknown) return own;
  const bool is_collective =
      event.signature != nullptr && event.signature->category == Category::kCollectiveFailure;
  if (!is_collective) return Stage::kUnknown;
  for (const Event& other : timeline.events) {
    if (other.file != event.file) continue;
    if (const Stage told = stage_of_sequence(other.text); told != Stage::kUnknown) return told;
  }
  return Stage::kUnknown;
}

StageFound stage_of_chain(const Catalog& catalog, const Timeline& timeline, const Event& event) {
  const StageFound own = stage_of_frames(catalog, *event.exception);
  if (own.telling > Telling::kHint) return own;
  for (const Exception* later : rest_of_chain(timeline, event)) {
    const StageFound found = stage_of_frames(catalog, *later);
    if (found.telling > Telling::kHint) return found;
  }
  return own;
}

// A line says what failed; the tracebacks behind it show what was running.
StageFound stage_behind_line(const Catalog& catalog, const Timeline& timeline, const Event& line) {
  StageFound best;
  if (const Exception* dump = dump_of(timeline, line)) best = stage_of_frames(catalog, *dump);
  if (best.telling > Telling::kHint) return best;
  for (const Event& other : timeline.events) {
    const bool behind = other.exception && other.file == line.file && other.line > line.line &&
                        other.line - line.line <= kLinesBehind && other.writer == line.writer;
    if (!behind) continue;
    const StageFound found = stage_of_frames(catalog, *other.exception);
    const bool same = other.signature != nullptr && line.signature != nullptr &&
                      other.signature->category == line.signature->category;
    if (same && found.telling > Telling::kHint) return found;
    if (best.telling == Telling::kNothing) best = found;
  }
  return best;
}

}  // namespace

std::vector<const Exception*> rest_of_chain(const Timeline& timeline, const Event& event) {
  std::vector<const Exception*> rest;
  bool behind = false;
  for (const Event& other : timeline.events) {
    if (&other == &event) {
      behind = true;
    } else if (behind && other.exception && other.file == event.file &&
               other.writer == event.writer) {
      if (other.exception->link == Link::kNone) break;
      rest.push_back(&*other.exception);
    }
  }
  return rest;
}

const Exception* dump_of(const Timeline& timeline, const Event& line) {
  if (line.exception) return nullptr;
  for (const Event& owner : timeline.events) {
    if (!owner.dump || owner.file != line.file || owner.writer != line.writer) continue;
    const uint64_t at = owner.dump->line;
    const uint64_t distance = at > line.line ? at - line.line : line.line - at;
    const bool is_same = owner.signature != nullptr && line.signature != nullptr &&
                         owner.signature->category == line.signature->category;
    if (is_same && distance <= kLinesBehind) return &*owner.dump;
  }
  return nullptr;
}

StageFound stage_of_frames(const Catalog& catalog, const Exception& exception) {
  const Imports imports = imports_of(exception);
  StageFound found;
  if (imports != Imports::kFirst) {
    for (const Frame& frame : exception.frames) go_in(found, stage_of_frame(catalog, frame));
  }
  const bool says_no_more = imports != Imports::kNone && found.telling <= Telling::kHint;
  if (!says_no_more) return found;
  return {Stage::kImport, imports == Imports::kFirst ? Telling::kAct : Telling::kHint};
}

Stage stage_of(const Catalog& catalog, const Timeline& timeline, const Event& event) {
  // Who only reports that a process failed stands in no phase of it.
  const bool only_reports = event.role == Role::kWrapper && event.signature != nullptr &&
                            event.signature->category == Category::kUnknown;
  if (only_reports) return event.doing;
  StageFound found = event.exception ? stage_of_chain(catalog, timeline, event)
                                     : stage_behind_line(catalog, timeline, event);
  if (event.signature != nullptr && event.signature->stage) {
    // Of what happens where a job spends its time the frames know more than its kind does.
    const bool is_elsewhere = *event.signature->stage == Stage::kTrain &&
                              found.telling == Telling::kAct && found.stage != Stage::kTeardown;
    return is_elsewhere ? found.stage : *event.signature->stage;
  }
  // A shell that cannot run a line has started nothing.
  static const RE2 kShell(R"((?:(?:/bin/)?(?:ba|z|da|k)?sh|\S+\.sh): .*)");
  const bool is_shell = !event.exception && RE2::FullMatch(event.text, kShell);
  if (is_shell && found.telling == Telling::kNothing) return Stage::kStart;
  if (found.telling == Telling::kNothing) found = stage_of_source(catalog, event.text);
  if (found.stage == Stage::kStart && event.signature != nullptr &&
      event.signature->category == Category::kIllegalArgument) {
    return Stage::kArguments;  // whoever starts something refuses what it was given
  }
  // A worker of a loader is known by its message alone: its death interrupts whatever goes on.
  if (contains(event.text, "DataLoader worker")) return Stage::kData;
  // A run of training holds the validation that the log tells of, which is an evaluation.
  const bool is_in_training =
      (found.stage == Stage::kTrain && found.telling == Telling::kSetting) ||
      found.stage == Stage::kEvaluate;
  if (is_in_training && event.doing == Stage::kValidate) return Stage::kValidate;
  if (found.telling > Telling::kHint) return found.stage;
  const StageFound of_text = stage_of_text(catalog, event);
  if (of_text.telling > Telling::kHint) return of_text.stage;
  const Stage of_collective = stage_of_sequences(timeline, event);
  if (of_collective != Stage::kUnknown) return of_collective;
  // A job goes on from its preparations to its work: the later of what both tell.
  const bool is_hint = found.telling == Telling::kHint;
  if (is_hint && is_preparation(event.doing) && !is_preparation(found.stage)) return found.stage;
  const bool is_known = event.doing != Stage::kUnknown;
  if (is_known && !event.doing_is_hint) return event.doing;
  if (is_hint) return found.stage;
  if (is_known && of_text.telling == Telling::kNothing) return event.doing;
  if (of_text.telling == Telling::kHint) return of_text.stage;
  if (const Stage usual = usual_stage(event); usual != Stage::kUnknown) return usual;
  // Who shows a log may say behind it what he did.
  return timeline.doing_is_hint ? timeline.doing : Stage::kUnknown;
}

}  // namespace paramedic::diagnose
