#include "cluster/mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cluster/hang.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kCampsMax = 6;

class Describer {
 public:
  Describer(const Divergence& divergence, const std::string& sequence, const WordsOf& words)
      : divergence_(divergence), sequence_(sequence), words_(words) {}

  [[nodiscard]] std::string against_majority(const std::vector<int32_t>& odd) const {
    const auto& camps = divergence_.camps;
    const auto camp = std::find_if(camps.begin(), camps.end(), [&](const auto& one) {
      return std::binary_search(one.ranks.begin(), one.ranks.end(), odd.front());
    });
    return fmt::format("{} called {} where {} called {}, as call {} of {}", name_ranks(camp->ranks),
                       call_of(*camp), name_ranks(camps.front().ranks), call_of(camps.front()),
                       divergence_.number, sequence_);
  }

  [[nodiscard]] std::string of_a_tie() const {
    std::string text =
        fmt::format("call {} of {} is not the same on all ranks: ", divergence_.number, sequence_);
    for (size_t i = 0; i < std::min(divergence_.camps.size(), kCampsMax); ++i) {
      const Divergence::Camp& camp = divergence_.camps[i];
      text +=
          fmt::format("{}{} called {}", i == 0 ? "" : ", ", name_ranks(camp.ranks), call_of(camp));
    }
    return text + "; no side has the majority";
  }

  void add_evidence(std::vector<std::string>& evidence) const {
    for (size_t i = 0; i < std::min(divergence_.camps.size(), kCampsMax); ++i) {
      const Divergence::Camp& camp = divergence_.camps[i];
      evidence.push_back(fmt::format("{}: {}, {}", name_ranks(camp.ranks), call_of(camp),
                                     words_(camp.ranks.front(), divergence_.number).state));
    }
    if (!divergence_.has_majority) return;
    for (size_t i = 0; i < std::min(divergence_.edits.size(), kCampsMax); ++i) {
      const std::string text = edit_text(divergence_.edits[i]);
      if (!text.empty()) evidence.push_back(text);
    }
  }

 private:
  [[nodiscard]] std::string call_of(const Divergence::Camp& camp) const {
    const CallWords words = words_(camp.ranks.front(), divergence_.number);
    if (words.where.line <= 0) return words.text;
    return fmt::format("{} ({})", words.text, place(words.where));
  }

  [[nodiscard]] std::string edit_text(const Edit& edit) const {
    if (edit.kind == Edit::Kind::kSkipped) {
      return fmt::format("as if rank {} had skipped {}{}", edit.rank,
                         call_of(divergence_.camps.front()),
                         edit.count == 1 ? "" : " and what follows");
    }
    if (edit.kind == Edit::Kind::kExtra) {
      return fmt::format("as if rank {} had made {} call{} more", edit.rank, edit.count,
                         edit.count == 1 ? "" : "s");
    }
    if (edit.kind == Edit::Kind::kReordered) {
      return fmt::format("rank {} makes the same {} calls in another order", edit.rank, edit.count);
    }
    return {};
  }

  const Divergence& divergence_;
  const std::string& sequence_;
  const WordsOf& words_;
};

}  // namespace

Mismatch describe_mismatch(const Divergence& divergence, const std::string& sequence,
                           const WordsOf& words) {
  Mismatch mismatch;
  rules::Finding& finding = mismatch.finding;
  finding.severity = rules::Severity::kError;
  std::vector<int32_t> odd;
  if (divergence.has_majority) {
    for (const Edit& edit : divergence.edits) odd.push_back(edit.rank);
  }
  if (odd.size() == 1) finding.rank = odd.front();
  mismatch.shown = odd.empty() ? divergence.camps.back().ranks.front() : odd.front();
  finding.where = where_of(words(mismatch.shown, divergence.number).where);
  finding.confidence = divergence.has_majority ? 0.95 : 0.9;
  const Describer describer(divergence, sequence, words);
  finding.message =
      divergence.has_majority ? describer.against_majority(odd) : describer.of_a_tie();
  describer.add_evidence(finding.evidence);
  return mismatch;
}

}  // namespace paramedic::cluster
