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

// Where failures of a kind happen when nothing else tells.
Stage usual_stage(Category category) {
  switch (category) {
    case Category::kLibraryNotFound:
    case Category::kSyntaxError:
      return Stage::kImport;
    case Category::kLossNan:
      return Stage::kTrain;
    case Category::kPortInUse:
    case Category::kNetwork:
      return Stage::kDistributed;
    default:
      return Stage::kUnknown;
  }
}

Stage stage_of_chain(const Catalog& catalog, const Timeline& timeline, const Event& event) {
  const Stage own = stage_of_frames(catalog, *event.exception);
  if (own != Stage::kUnknown) return own;
  bool behind = false;
  for (const Event& other : timeline.events) {
    if (&other == &event) {
      behind = true;
    } else if (behind && other.exception && other.file == event.file &&
               other.writer == event.writer) {
      if (other.exception->link == Link::kNone) break;
      const Stage stage = stage_of_frames(catalog, *other.exception);
      if (stage != Stage::kUnknown) return stage;
    }
  }
  return Stage::kUnknown;
}

}  // namespace

Stage stage_of_frames(const Catalog& catalog, const Exception& exception) {
  if (exception.frames.empty()) return Stage::kUnknown;
  if (is_import(exception)) return Stage::kImport;
  std::vector<std::string> texts;
  for (const Frame& frame : exception.frames) {
    texts.push_back(
        fmt::format("{} | {} | {}", short_path(frame.file), frame.function, frame.code));
  }
  for (const StageRule& rule : catalog.stages()) {
    if (!rule.frame) continue;
    const bool hit = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return RE2::PartialMatch(text, *rule.frame);
    });
    if (hit) return rule.stage;
  }
  return Stage::kUnknown;
}

Stage stage_of(const Catalog& catalog, const Timeline& timeline, const Event& event) {
  if (event.signature != nullptr && event.signature->stage) return *event.signature->stage;
  if (event.exception) {
    const Stage stage = stage_of_chain(catalog, timeline, event);
    if (stage != Stage::kUnknown) return stage;
  }
  const Stage of_collective = stage_of_sequence(event.text);
  if (of_collective != Stage::kUnknown) return of_collective;
  if (event.doing != Stage::kUnknown) return event.doing;
  return event.signature == nullptr ? Stage::kUnknown : usual_stage(event.signature->category);
}

}  // namespace paramedic::diagnose
