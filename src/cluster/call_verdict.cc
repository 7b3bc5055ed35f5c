#include "cluster/call_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "cluster/call_graph.h"
#include "cluster/culprit.h"
#include "cluster/hang.h"
#include "cluster/mismatch.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr double kSecondNs = 1e9;
// Open for less than this when it was last told: the course of things.
constexpr double kWaitMin = 2;
constexpr size_t kCampsMax = 6;
constexpr size_t kFindingsMax = 100;
// Calls that all ranks make alike before their programs are taken to be the same one.
constexpr int64_t kSameProgramMin = 12;

class Judge {
 public:
  Judge(const CallBook& book, const std::string& source) : book_(book), source_(source) {
    for (size_t i = 0; i < book.groups().size(); ++i) look_at(i);
    const CallGraph graph = open_calls(book, parted_);
    graph_ = &graph;
    const bool is_explained = !graph.knots.empty() && add_parted_program();
    for (const Knot& knot : graph.knots) {
      if (is_explained || verdict_.findings.size() >= kFindingsMax) break;
      verdict_.findings.push_back(finding_of(knot));
    }
    std::stable_sort(verdict_.groups.begin(), verdict_.groups.end(),
                     [](const GroupStanding& a, const GroupStanding& b) {
                       const auto weight = [](const GroupStanding& one) {
                         return std::tuple(!one.parted, one.behind.empty(), one.inside.empty());
                       };
                       return weight(a) < weight(b);
                     });
    std::stable_sort(
        verdict_.findings.begin(), verdict_.findings.end(),
        [](const rules::Finding& a, const rules::Finding& b) { return a.severity > b.severity; });
  }

  CallVerdict take() { return std::move(verdict_); }

 private:
  void look_at(size_t index) {
    const BookedGroup& group = book_.groups()[index];
    GroupStanding& standing = verdict_.groups.emplace_back();
    standing.name = group.name;
    standing.description = group.description;
    standing.members = group.members;
    std::vector<RankCalls> calls;
    for (const auto& [rank, booked] : group.ranks) {
      if (group.members.empty()) standing.members.push_back(rank);
      if (booked.is_known) calls.push_back(booked.calls);
      if (!booked.is_known) standing.not_known.push_back(rank);
    }
    for (const int32_t rank : group.members) {
      if (!group.ranks.contains(rank)) standing.without_dump.push_back(rank);
    }
    if (calls.empty()) return;
    Frontier frontier = frontier_of(calls);
    standing.furthest = frontier.furthest - 1;
    for (const int32_t rank : frontier.laggards) {
      standing.behind.emplace_back(rank, group.ranks.at(rank).calls.entered() - 1);
    }
    standing.inside = std::move(frontier.inside);
    const auto divergence = first_divergence(calls);
    if (!divergence) return;
    standing.parted = divergence->number;
    add_mismatch(index, *divergence);
  }

  void add_mismatch(size_t index, const Divergence& divergence) {
    const BookedGroup& group = book_.groups()[index];
    const auto words = [&](int32_t rank, int64_t number) -> CallWords {
      const BookedCalls& booked = group.ranks.at(rank);
      const auto at = static_cast<size_t>(number - booked.calls.first);
      return {book_.text(booked.calls.signatures[at]), book_.site(booked.sites[at]),
              number >= booked.calls.left ? "still inside" : "over: if it returned, wrongly"};
    };
    rules::Finding finding = describe_mismatch(divergence, "group " + group.label(), words).finding;
    complete(finding, "collective_mismatch");
    if (verdict_.findings.size() < kFindingsMax) verdict_.findings.push_back(std::move(finding));
    // Calls of another size go on; those that were skipped or made too often shift all others.
    const bool one_call_only =
        divergence.has_majority &&
        std::all_of(divergence.edits.begin(), divergence.edits.end(),
                    [](const Edit& edit) { return edit.kind == Edit::Kind::kOther; });
    parted_[index] = {divergence.number, one_call_only ? divergence.number : INT64_MAX};
  }

  // A call that is left out shows in its group only when the next one of that group is made, which
  // may never be: ranks that have run the same program for a while are compared over all groups.
  bool add_parted_program() {
    const auto& programs = book_.programs();
    if (programs.size() < book_.ranks().size()) return false;
    std::vector<RankCalls> calls;
    int64_t first = 0;
    for (const BookedCalls& program : programs) {
      calls.push_back(program.calls);
      first = std::max(first, program.calls.first);
    }
    const auto divergence = first_divergence(calls);
    if (!divergence || !divergence->has_majority || divergence->edits.size() != 1) return false;
    if (divergence->number - first < kSameProgramMin) return false;
    const auto words = [&](int32_t rank, int64_t number) -> CallWords {
      const auto program =
          std::find_if(programs.begin(), programs.end(),
                       [&](const BookedCalls& one) { return one.calls.rank == rank; });
      const auto at = static_cast<size_t>(number - program->calls.first);
      return {book_.text(program->calls.signatures[at]), book_.site(program->sites[at]),
              number >= program->calls.left ? "still inside" : "over"};
    };
    rules::Finding finding =
        describe_mismatch(*divergence, "all groups together, in the order of making", words)
            .finding;
    finding.confidence = 0.75;
    complete(finding, "collective_mismatch");
    verdict_.findings.push_back(std::move(finding));
    return true;
  }

  void complete(rules::Finding& finding, const std::string& id) const {
    finding.id = id;
    finding.evidence.push_back("rests on " + source_);
    for (const WatchEntry& entry : watch_entries()) {
      if (entry.info.id == id && finding.fix.empty()) finding.fix = entry.info.fix;
    }
  }

  [[nodiscard]] std::string call_text(const OpenCall& call) const {
    const BookedGroup& group = book_.groups()[call.group];
    std::string text = book_.text(call.signature);
    if (book_.site(call.site).line > 0) text += fmt::format(" ({})", place(book_.site(call.site)));
    if (call.is_transfer) return fmt::format("{} of group {}", text, group.label());
    return fmt::format("{}, call {} of group {}", text, call.number, group.label());
  }

  // How long the first one had waited when it was last told; negative: not known.
  [[nodiscard]] double waited_s(const OpenCall& call) const {
    int64_t newest_ns = 0;
    for (const int32_t rank : call.waiters) {
      const auto told = book_.ranks().find(rank);
      if (told != book_.ranks().end()) newest_ns = std::max(newest_ns, told->second);
    }
    if (call.since_ns == 0 || newest_ns < call.since_ns) return -1;
    return static_cast<double>(newest_ns - call.since_ns) / kSecondNs;
  }

  [[nodiscard]] std::string last_call_of(int32_t rank, const OpenCall& call) const {
    if (call.is_transfer) return {};
    const BookedGroup& group = book_.groups()[call.group];
    const BookedCalls& booked = group.ranks.at(rank);
    const RankCalls& calls = booked.calls;
    if (calls.entered() == 0) return fmt::format("rank {} has called nothing in it", rank);
    std::string text =
        fmt::format("the last call of rank {} in it was call {}", rank, calls.entered() - 1);
    if (!calls.signatures.empty()) {
      text += ", " + book_.text(calls.signatures.back());
      const store::CallSite& site = book_.site(booked.sites.back());
      if (site.line > 0) text += fmt::format(" ({})", place(site));
    }
    return text + (calls.left == calls.entered() ? "; it has returned from it" : "");
  }

  void add_waiters(const Knot& knot, rules::Finding& finding) const {
    for (size_t i = 0; i < std::min(knot.calls.size(), kCampsMax); ++i) {
      const OpenCall& call = graph_->calls[knot.calls[i]];
      const double waited = waited_s(call);
      finding.evidence.push_back(fmt::format(
          "{} in {}{}", name_ranks(call.waiters), call_text(call),
          waited < 0 ? "" : fmt::format(", for {} when last told", name_duration(waited))));
    }
    if (knot.calls.size() > kCampsMax) {
      finding.evidence.push_back(
          fmt::format("ranks wait in {} more calls", knot.calls.size() - kCampsMax));
    }
  }

  [[nodiscard]] rules::Finding finding_of(const Knot& knot) const {
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    const OpenCall& first = graph_->calls[knot.calls.front()];
    finding.where = where_of(book_.site(first.site));
    const char* id = "hang_all_ranks";
    if (!knot.ends.empty() || !knot.unknown.empty()) {
      id = "hang_missing_rank";
      knot.ends.empty() ? say_unknown(knot, finding) : say_missing(knot, finding);
    } else if (!knot.inside.empty()) {
      say_inside(knot, finding);
    } else {
      say_circle(knot, finding);
    }
    double longest_s = -1;
    for (const size_t call : knot.calls) {
      longest_s = std::max(longest_s, waited_s(graph_->calls[call]));
    }
    if (longest_s >= 0 && longest_s < kWaitMin) {
      finding.severity = rules::Severity::kInfo;
      finding.message += "; it lasted for less than 2 s when it was told, which is no hang yet";
    }
    complete(finding, id);
    return finding;
  }

  void say_missing(const Knot& knot, rules::Finding& finding) const {
    const std::vector<int32_t> ends(knot.ends.begin(), knot.ends.end());
    if (ends.size() == 1) finding.rank = ends.front();
    // The call for which one of them is missing, not one that waits for those who wait.
    const auto direct = std::find_if(knot.calls.begin(), knot.calls.end(), [&](size_t i) {
      const auto& missing = graph_->calls[i].missing;
      return std::any_of(missing.begin(), missing.end(),
                         [&](int32_t rank) { return knot.ends.contains(rank); });
    });
    const OpenCall& call = graph_->calls[*direct];
    finding.where = where_of(book_.site(call.site));
    finding.confidence = call.unknown.empty() ? 0.85 : 0.7;
    finding.message = fmt::format(
        "{} {} not come to {}, where {} {}", name_ranks(ends), ends.size() == 1 ? "has" : "have",
        call_text(call), name_ranks(call.waiters), call.waiters.size() == 1 ? "waits" : "wait");
    for (size_t i = 0; i < std::min(ends.size(), kCampsMax); ++i) {
      const bool is_missing =
          std::find(call.missing.begin(), call.missing.end(), ends[i]) != call.missing.end();
      const std::string last = is_missing ? last_call_of(ends[i], call) : "";
      if (!last.empty()) finding.evidence.push_back(last);
    }
    add_waiters(knot, finding);
    if (!call.unknown.empty()) {
      finding.evidence.push_back(
          fmt::format("whether {} came is not known: no dump tells", name_ranks(call.unknown)));
    }
  }

  void say_unknown(const Knot& knot, rules::Finding& finding) const {
    const std::vector<int32_t> ranks(knot.unknown.begin(), knot.unknown.end());
    if (ranks.size() == 1) finding.rank = ranks.front();
    const OpenCall& call = graph_->calls[knot.calls.front()];
    finding.confidence = 0.5;
    finding.message =
        fmt::format("of {} no call is told, and all others have come to {}, which does not return",
                    name_ranks(ranks), call_text(call));
    finding.evidence.push_back(
        fmt::format("{} left no dump, or an empty one: it had ended, or never came, or its dump "
                    "was not collected",
                    ranks.size() == 1 ? "it" : "each of them"));
    add_waiters(knot, finding);
  }

  void say_inside(const Knot& knot, rules::Finding& finding) const {
    const OpenCall& call = graph_->calls[knot.inside.front()];
    const BookedGroup& group = book_.groups()[call.group];
    finding.where = where_of(book_.site(call.site));
    finding.confidence = 0.7;
    if (call.is_transfer) {
      finding.message = fmt::format("{} stands in {}, both ends of which have come",
                                    name_ranks(call.waiters), call_text(call));
    } else {
      const bool all = call.waiters.size() == group.ranks.size();
      finding.message =
          fmt::format("{} {} inside of {}, which all {} members have entered{}",
                      name_ranks(call.waiters), call.waiters.size() == 1 ? "is" : "are",
                      call_text(call), group.ranks.size(), all ? "" : "; the others are through");
    }
    finding.evidence.emplace_back(
        "nobody is missing: the network, a device or a process that died "
        "in the call");
    add_waiters(knot, finding);
  }

  void say_circle(const Knot& knot, rules::Finding& finding) const {
    std::vector<BlockedCall> circle;
    for (const size_t i : knot.calls) {
      circle.push_back({graph_->calls[i].waiters, graph_->calls[i].missing});
    }
    const auto candidates = could_free_all(circle);
    finding.rank =
        candidates.size() == 1 ? candidates.front() : unlike_its_peers(call_counts(), candidates);
    finding.confidence = 0.85;
    const OpenCall& first = graph_->calls[knot.calls.front()];
    finding.message = fmt::format("ranks wait for each other in {} calls: {} in {}",
                                  knot.calls.size(), name_ranks(first.waiters), call_text(first));
    if (knot.calls.size() > 1) {
      const OpenCall& second = graph_->calls[knot.calls[1]];
      finding.message += fmt::format(", {} in {}", name_ranks(second.waiters), call_text(second));
    }
    if (finding.rank) {
      for (const size_t i : knot.calls) {
        const OpenCall& call = graph_->calls[i];
        const bool is_in =
            std::binary_search(call.waiters.begin(), call.waiters.end(), *finding.rank);
        if (is_in) finding.where = where_of(book_.site(call.site));
      }
      finding.evidence.push_back(
          fmt::format("rank {} alone would set all others free", *finding.rank));
    }
    add_waiters(knot, finding);
  }

  [[nodiscard]] CallCounts call_counts() const {
    CallCounts counts;
    for (const BookedGroup& group : book_.groups()) {
      for (const auto& [rank, booked] : group.ranks) {
        if (!booked.is_known) continue;
        counts[{group.description, group.members.size()}][rank].insert(booked.calls.entered());
      }
    }
    return counts;
  }

  const CallBook& book_;
  const std::string& source_;
  const CallGraph* graph_ = nullptr;
  CallVerdict verdict_;
  std::map<size_t, NumberRange> parted_;  // by group: see open_calls
};

}  // namespace

CallVerdict judge_calls(const CallBook& book, const std::string& source) {
  return Judge(book, source).take();
}

}  // namespace paramedic::cluster
