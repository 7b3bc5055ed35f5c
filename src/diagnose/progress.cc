#include "diagnose/progress.h"

#include <re2/re2.h>

#include <algorithm>
#include <vector>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr size_t kLinesMax = 256;
constexpr size_t kLineBytesMax = 600;
// That many later steps show that the job went on after an error.
constexpr int64_t kStepsToGoOn = 3;

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

bool tells_of_progress(std::string_view line) {
  static const RE2 kProgress(
      R"((?i)\b[\w-]*(?:loss|auc|acc|accuracy|rmse|mae|perplexity|ppl)\b\s?[:=]\s?-?\d)"
      R"(|\d+%\||\d(?:\.\d+)?(?:it/s|s/it)\b)");
  return RE2::PartialMatch(piece(line), kProgress);
}

void ProgressReader::note_step(int64_t step, Timeline& timeline) {
  timeline.made_progress = true;
  timeline.last_step = step;
  // Each event is settled once: steps grow, and so do those of the events.
  settled_ = std::min(settled_, timeline.events.size());
  while (settled_ < timeline.events.size()) {
    Event& event = timeline.events[settled_];
    const bool here = event.file + 1 == timeline.files.size() && event.step >= 0;
    if (here && step < event.step + kStepsToGoOn) break;
    event.went_on = here;
    ++settled_;
  }
}

void ProgressReader::note_stage(const StageRule& rule, Timeline& timeline) {
  // To evaluate in the middle of a training is to validate.
  const bool within = trained_ && rule.stage == Stage::kEvaluate && rule.telling == Telling::kAct;
  const bool is_hint = rule.telling == Telling::kHint;
  if (!is_hint || timeline.doing == Stage::kUnknown) {
    timeline.doing = within ? Stage::kValidate : rule.stage;
    timeline.doing_is_hint = is_hint;
  }
  trained_ = trained_ || rule.stage == Stage::kTrain;
}

void ProgressReader::read_line(std::string_view line, Timeline& timeline) {
  static const RE2 kStep(R"((?i)\b(?:global[_ ]?step|step|iter|iteration|batch|update)s?\b)"
                         R"([\s"'=:#\[(]{0,5}(\d{1,12}))");
  static const RE2 kEpoch(R"((?i)\bepoch\b[\s"'=:#\[(]{0,5}(\d{1,9}))");
  static const RE2 kSaved(
      R"((?i)\b(?:saved|saving|wrote|stored)\b.{0,60}(?:checkpoint|ckpt|model|weights|\.pth?\b))"
      R"(|(?:checkpoint|ckpt|model).{0,40}\bsaved)");
  static const RE2 kFinished(
      R"((?i)\b(?:training|train|finetuning|fine-tuning|job|run|evaluation|optimization)\b.{0,24})"
      R"(\b(?:completed?|finished|done|successful(?:ly)?|succeeded)\b)"
      R"(|max_(?:epochs|steps)=\d+` reached|\bexit(?:ed)?(?: with)?(?: code| status)?[ :=]{1,3}0\b)"
      R"(|\bjob succeeded|"train_runtime"|'train_runtime')");
  // Slurm's steps are parts of a job, not of a training.
  static const RE2 kScheduler(R"(^(?:slurmstepd|srun|salloc|sbatch): |\*\*\* (?:JOB|STEP) \d)");
  const re2::StringPiece text = piece(line);
  if (RE2::PartialMatch(text, kScheduler)) return;
  int64_t step = 0;
  if (RE2::PartialMatch(text, kStep, &step) || RE2::PartialMatch(text, kEpoch, &step)) {
    note_step(step, timeline);
  }
  if (RE2::PartialMatch(text, kSaved)) timeline.checkpoint_step = timeline.last_step;
  if (const StageRule* rule = catalog_.rule_of_line(line)) note_stage(*rule, timeline);
  if (RE2::PartialMatch(text, kFinished)) {
    timeline.finished = true;
    timeline.finished_at = timeline.events.size();
  }
}

void ProgressReader::read(std::string_view text, Timeline& timeline) {
  std::vector<std::string_view> lines;
  size_t end = text.size();
  while (end > 0 && lines.size() < kLinesMax) {
    const size_t begin = text.find_last_of("\n\r", end - 1);
    const size_t from = begin == std::string_view::npos ? 0 : begin + 1;
    if (end > from) lines.push_back(text.substr(from, std::min(end - from, kLineBytesMax)));
    end = begin == std::string_view::npos ? 0 : begin;
  }
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    read_line(clean_line(*line), timeline);
  }
}

}  // namespace paramedic::diagnose
