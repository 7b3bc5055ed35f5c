#include "diagnose/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

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

// A module that is being imported runs at its top level; so does a script, from its one frame.
bool is_import(const Exception& exception) {
  const auto& frames = exception.frames;
  if (frames.size() < 2) {
    return !frames.empty() &&
           (frames[0].code.starts_with("import ") ||
            (frames[0].code.starts_with("from ") && contains(frames[0].code, " import ")));
  }
  const auto imports = [](const Frame& frame) {
    const std::string_view code = frame.code;
    return contains(frame.file, "importlib") || code.starts_with("import ") ||
           (code.starts_with("from ") && contains(code, " import ")) ||
           contains(code, "import_module(");
  };
  // The user's own frames up to the first one that imports are all at the top level.
  for (const Frame& frame : frames) {
    if (imports(frame)) return true;
    if (frame.role != FrameRole::kLauncher && frame.function != "<module>" &&
        !frame.function.empty() && frame.role == FrameRole::kUser) {
      return false;
    }
  }
  return false;
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

// "XGBoostModel training failed": the message says itself what was going on.
Stage stage_of_words(const std::string& text) {
  static const RE2 kFailed(
      R"((?i)\b(?:(train(?:ing)?)|(validation)|(evaluation|inference|prediction)|(export)|)"
      R"((checkpoint(?:ing)?))\s+(?:has |was )?(?:failed|crashed|aborted|interrupted)\b)");
  std::string train, validate, evaluate, exporting, checkpoint;
  if (!RE2::PartialMatch(text, kFailed, &train, &validate, &evaluate, &exporting, &checkpoint)) {
    return Stage::kUnknown;
  }
  if (!train.empty()) return Stage::kTrain;
  if (!validate.empty()) return Stage::kValidate;
  if (!evaluate.empty()) return Stage::kEvaluate;
  return exporting.empty() ? Stage::kCheckpoint : Stage::kExport;
}

// What happens inside a phase and still belongs to it. A forward pass inside the validation is
// validation, but a batch that is read inside it is data; a run of training holds every other
// phase.
bool holds(const StageFound& outer, const StageFound& within) {
  const Stage inner = within.stage;
  switch (outer.stage) {
    case Stage::kArguments:
    case Stage::kData:
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

StageFound stage_of_frame(const Catalog& catalog, const Frame& frame) {
  const std::string text =
      fmt::format("{} | {} | {}", short_path(frame.file), frame.function, frame.code);
  for (const StageRule& rule : catalog.stages()) {
    if (rule.frame && RE2::PartialMatch(text, *rule.frame)) return {rule.stage, rule.telling};
  }
  return {};
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
      return event.exception ? Stage::kDistributed : Stage::kUnknown;
    // What needs a batch, or steps that ran, happens where a job spends its time.
    case Category::kLossNan:
    case Category::kGpuOutOfMemory:
    case Category::kCudaDeviceAssert:
    case Category::kCollectiveMismatch:
    case Category::kCollectiveFailure:
      return Stage::kTrain;
    default:
      return Stage::kUnknown;
  }
}

StageFound stage_of_chain(const Catalog& catalog, const Timeline& timeline, const Event& event) {
  const StageFound own = stage_of_frames(catalog, *event.exception);
  if (own.telling > Telling::kHint) return own;
  bool behind = false;
  for (const Event& other : timeline.events) {
    if (&other == &event) {
      behind = true;
    } else if (behind && other.exception && other.file == event.file &&
               other.writer == event.writer) {
      if (other.exception->link == Link::kNone) break;
      const StageFound found = stage_of_frames(catalog, *other.exception);
      if (found.telling > Telling::kHint) return found;
    }
  }
  return own;
}

// A line says what failed; the tracebacks behind it show what was running.
StageFound stage_behind_line(const Catalog& catalog, const Timeline& timeline, const Event& line) {
  constexpr uint64_t kLinesBehind = 64;
  StageFound best;
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

StageFound stage_of_frames(const Catalog& catalog, const Exception& exception) {
  if (is_import(exception)) return {Stage::kImport, Telling::kAct};
  StageFound found;
  for (const Frame& frame : exception.frames) go_in(found, stage_of_frame(catalog, frame));
  return found;
}

Stage stage_of(const Catalog& catalog, const Timeline& timeline, const Event& event) {
  if (event.signature != nullptr && event.signature->stage) return *event.signature->stage;
  StageFound found = event.exception ? stage_of_chain(catalog, timeline, event)
                                     : stage_behind_line(catalog, timeline, event);
  if (found.stage == Stage::kStart && event.signature != nullptr &&
      event.signature->category == Category::kIllegalArgument) {
    return Stage::kArguments;  // whoever starts something refuses what it was given
  }
  // A worker of a loader is known by its message alone: its death interrupts whatever goes on.
  if (contains(event.text, "DataLoader worker")) return Stage::kData;
  // A run of training holds the validation that the log tells of.
  const bool is_in_training = found.stage == Stage::kTrain && found.telling == Telling::kSetting;
  if (is_in_training && event.doing == Stage::kValidate) return Stage::kValidate;
  if (found.telling > Telling::kHint) return found.stage;
  if (const Stage of_words = stage_of_words(event.text); of_words != Stage::kUnknown) {
    return of_words;
  }
  const Stage of_collective = stage_of_sequence(event.text);
  if (of_collective != Stage::kUnknown) return of_collective;
  if (event.doing != Stage::kUnknown) return event.doing;
  if (found.telling == Telling::kHint) return found.stage;
  return usual_stage(event);
}

}  // namespace paramedic::diagnose
