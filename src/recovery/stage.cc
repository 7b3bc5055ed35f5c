#include <re2/re2.h>

#include "recovery/policies.h"
#include "recovery/stack_text.h"

namespace paramedic::recovery {
namespace {

using diagnose::Stage;

// The first that is found decides, so the narrow ones come first.
struct Sign {
  Stage stage;
  const char* pattern;
};
constexpr Sign kFileSigns[] = {
    {Stage::kData, R"((?:^|/)torch/utils/data/|(?:^|/)torchvision/datasets/|(?:^|/)datasets/)"}};
constexpr Sign kCodeSigns[] = {
    {Stage::kCheckpoint, R"((?i)\b(?:torch\.save|save_\w*|save|dump|save_pretrained)\s*\()"},
    {Stage::kTrain, R"(\.backward\s*\(|\.step\s*\(|clip_grad_)"}};
constexpr Sign kFunctionSigns[] = {
    {Stage::kCheckpoint, R"((?i)checkpoint|(?:^|[._])save)"},
    {Stage::kValidate, R"((?i)valid|(?:^|[._])val(?:$|_))"},
    {Stage::kEvaluate, R"((?i)(?:^|[._])(?:eval|test|predict|infer))"},
    {Stage::kData, R"((?i)__getitem__|collate|(?:^|[._])load_(?:data|batch))"},
    {Stage::kTrain, R"((?i)train|(?:^|[._])fit|(?:^|[._])epoch|(?:^|[._])step)"}};

bool found_in(std::string_view text, const char* pattern) {
  return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), pattern);
}

template <typename Texts, size_t kCount>
Stage first_of(const Texts& texts, const Sign (&signs)[kCount]) {
  for (const Sign& sign : signs) {
    for (const auto& text : texts) {
      if (found_in(text, sign.pattern)) return sign.stage;
    }
  }
  return Stage::kUnknown;
}

}  // namespace

Stage stage_of(const Crash& crash) {
  const StackText stack = stack_text(crash);
  if (const Stage stage = first_of(stack.files, kFileSigns); stage != Stage::kUnknown) return stage;
  if (const Stage stage = first_of(stack.code, kCodeSigns); stage != Stage::kUnknown) return stage;
  for (auto frame = crash.frames.rbegin(); frame != crash.frames.rend(); ++frame) {
    const std::vector<std::string_view> name{frame->function};
    const Stage stage = first_of(name, kFunctionSigns);
    if (stage != Stage::kUnknown) return stage;
  }
  return Stage::kUnknown;
}

}  // namespace paramedic::recovery
