#include "diagnose/resolve.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/lines.h"
#include "diagnose/collectives.h"
#include "diagnose/fingerprint.h"
#include "diagnose/ranks.h"
#include "diagnose/stage.h"
#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr size_t kEvidenceMax = 8;
constexpr size_t kRuledOutMax = 12;
constexpr size_t kOtherMax = 4;
constexpr size_t kSameRootMax = 3;

Category category_of(const Event& event) {
  return event.signature == nullptr ? Category::kUnknown : event.signature->category;
}

Tier tier_of(const Event& event) {
  return event.signature == nullptr ? Tier::kFallback : event.signature->tier;
}

// An exception that programs raise and catch all the time while they look something up: what is
// raised while it is handled says more, where that says anything.
bool is_lookup(const Event& event) {
  if (!event.exception || tier_of(event) > Tier::kType) return false;
  const std::string_view type = last_component(event.exception->type);
  // A message that is known says what went wrong with the value.
  if (type == "ValueError" || type == "TypeError") return tier_of(event) < Tier::kMessage;
  return type == "KeyError" || type == "AttributeError" || type == "IndexError" ||
         type == "StopIteration" || type == "Empty" || type == "ImportError" ||
         type == "ModuleNotFoundError";
}

// A handler that misses what the failed block should have set only follows from its failure, and
// who raises the same "from" it adds nothing.
bool says_more(const Event& cause, const Event& event) {
  const bool repeats =
      event.exception->link == Link::kCause && category_of(event) == category_of(cause);
  return tier_of(event) >= Tier::kMessage && !repeats &&
         last_component(event.exception->type) != "UnboundLocalError";
}

// Exceptions that were printed without frames, by file and first line: what stands behind such a
// line may be anybody's text.
using LoneLines = std::map<std::pair<size_t, std::string>, std::vector<size_t>>;

// The last exception of a chain is often printed once more, alone: where the job quits, or above
// the traceback in a report.
void demote_copies(std::vector<Event>& events, const Event& original, LoneLines& lone) {
  const auto copies = lone.find({original.file, original.text});
  if (copies == lone.end()) return;
  for (const size_t index : copies->second) {
    if (events[index].role == Role::kRoot) events[index].role = Role::kConfirmation;
  }
  lone.erase(copies);  // so that none is looked at twice
}

bool is_repeated(const Exception& first, const Exception& second) {
  return last_component(first.type) == last_component(second.type) &&
         first.message == second.message;
}

// Of linked exceptions one is the cause: the first, which the others only follow from, or the
// inner one where the first carries it over from a worker.
void settle_chains(std::vector<Event>& events) {
  std::map<std::pair<size_t, std::string>, size_t> cause_of_writer;
  LoneLines lone;
  for (size_t i = 0; i < events.size(); ++i) {
    Event& event = events[i];
    if (!event.exception || event.is_told) continue;
    const auto [known, is_new] = cause_of_writer.try_emplace({event.file, event.writer}, i);
    Event& cause = events[known->second];
    const Link link = event.exception->link;
    if (is_new || link == Link::kNone) {
      known->second = i;
    } else if (link == Link::kInner) {
      cause.role = Role::kWrapper;
      known->second = i;
    } else if (cause.role != Role::kRoot ||
               (is_lookup(cause) && event.role == Role::kRoot && says_more(cause, event) &&
                !is_repeated(*cause.exception, *event.exception))) {
      if (cause.role == Role::kRoot) cause.role = Role::kConfirmation;
      known->second = i;
    } else if (event.role == Role::kRoot) {
      event.role = Role::kConfirmation;
      demote_copies(events, event, lone);
    }
    if (event.exception->frames.empty()) lone[{event.file, event.text}].push_back(i);
  }
}

// "Type: message" out of a line, without the marks around a quotation.
std::string quotation_of(const std::string& text) {
  static const RE2 kNamed(R"(((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (.*?)["'`.*\s]*$)");
  std::string type, message;
  if (!RE2::PartialMatch(text, kNamed, &type, &message)) return {};
  return fmt::format("{}: {}", last_component(type), message);
}

// Who reports a failure quotes it before the log: the traceback says more, and what it only
// follows from is no cause in a sentence either.
void settle_quotations(std::vector<Event>& events) {
  const auto has_frames = [](const Event& event) {
    return event.exception && !event.exception->frames.empty();
  };
  std::map<std::tuple<size_t, std::string, std::string>, Role> originals;
  for (const Event& event : events) {
    if (!has_frames(event)) continue;
    originals.try_emplace({event.file, event.writer, quotation_of(event.text)}, event.role);
  }
  for (Event& event : events) {
    if (event.role != Role::kRoot || has_frames(event)) continue;
    const std::string quotation = quotation_of(event.text);
    const auto found = originals.find({event.file, event.writer, quotation});
    if (quotation.empty() || found == originals.end()) continue;
    event.role = found->second == Role::kRoot ? Role::kConfirmation : found->second;
  }
}

// Ranks that the launcher ends because one has failed die of its SIGTERM, of nobody else's.
void settle_ended_by_launcher(std::vector<Event>& events) {
  const auto is = [](const Event& event, std::string_view id) {
    return event.signature != nullptr && event.signature->id == id;
  };
  const auto ends = std::find_if(events.begin(), events.end(), [&](const Event& event) {
    return is(event, "launcher_ends_others") || is(event, "elastic_exit");
  });
  for (auto event = ends; event != events.end(); ++event) {
    if (is(*event, "stopped_by_sigterm") && !event->exception) event->role = Role::kTeardown;
  }
}

double score_of(const Event& event) {
  double score = 0;
  switch (event.role) {
    case Role::kRoot:
      score = 20;
      if (event.signature != nullptr) {
        score += 10 * (static_cast<int>(event.signature->weight) - 1);
      } else {
        score -= 4;  // an exception that nothing is known about
      }
      break;
    case Role::kCascade:
      score = 6;
      break;
    case Role::kConfirmation:
    case Role::kWrapper:
      score = 3;
      // Of several wrappers the one that says more.
      if (event.signature != nullptr && event.signature->weight == Weight::kOutright) score += 1;
      break;
    case Role::kTeardown:
      score = 1;
      break;
    case Role::kAdvice:
    case Role::kProgress:
      return 0;
  }
  if (event.level == Level::kWarning || event.level == Level::kInfo) score -= 6;
  if (event.went_on && score < 30) score -= 14;
  if (event.is_told) score -= 8;
  return score;
}

// By the clock where both tell the date, else in the order in which they were read.
bool earlier(const Event& a, const Event& b) {
  if (a.file != b.file && a.time_s > 86400 && b.time_s > 86400 && a.time_s != b.time_s) {
    return a.time_s < b.time_s;
  }
  return a.file != b.file ? a.file < b.file : a.line < b.line;
}

std::vector<size_t> by_score(const std::vector<Event>& events) {
  std::vector<size_t> order(events.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const double first = score_of(events[a]);
    const double second = score_of(events[b]);
    return first != second ? first > second : earlier(events[a], events[b]);
  });
  return order;
}

// The event that stands for the cause: of equal ones the first, but a whole traceback rather than
// a line or a copy that was cut.
size_t representative(const std::vector<Event>& events, const std::vector<size_t>& order) {
  const Event& first = events[order[0]];
  const bool whole =
      first.exception && (first.exception->has_header || first.exception->frames.size() > 1);
  const bool explicit_line = !first.exception && tier_of(first) == Tier::kExact;
  if (whole || explicit_line || first.role != Role::kRoot) return order[0];
  for (const size_t index : order) {
    const Event& event = events[index];
    if (score_of(event) < score_of(first)) break;
    const bool has_stack =
        event.exception && (event.exception->has_header || event.exception->frames.size() > 1);
    const bool better = has_stack && event.file == first.file && event.writer == first.writer &&
                        category_of(event) == category_of(first);
    if (better && category_of(event) != Category::kUnknown) return index;
  }
  return order[0];
}

double confidence_of(const Event& event) {
  static constexpr double kOfTier[] = {0.5, 0.7, 0.9, 0.93, 0.97};
  double confidence = kOfTier[static_cast<size_t>(tier_of(event))];
  if (event.role != Role::kRoot) confidence = 0.4;
  if (event.signature != nullptr && event.signature->weight == Weight::kSymptom) confidence *= 0.8;
  if (event.went_on || event.is_told) confidence *= 0.5;
  return confidence;
}

Evidence evidence_of(const Timeline& timeline, const Event& event, Role role) {
  return {timeline.files[event.file], event.line, event.offset, event.rank, role, event.text};
}

// The line of a message that the signature's patterns are about, where that is not its first.
void add_message_line(const Timeline& timeline, const Event& event, Verdict& verdict) {
  if (!event.exception || event.signature == nullptr || event.exception->more_lines.empty()) return;
  const Subject first(event.text);
  for (const Expression* pattern : event.signature->patterns) {
    if (pattern->occurs_in(first)) return;
    std::string_view rest = event.exception->message;
    (void)take_line(rest);
    for (const uint64_t line : event.exception->more_lines) {
      if (rest.empty()) break;
      const std::string_view text = take_line(rest);
      if (!pattern->occurs_in(Subject(text))) continue;
      Evidence piece = evidence_of(timeline, event, Role::kRoot);
      piece.line = line;
      piece.text = text;
      verdict.evidence.push_back(std::move(piece));
      return;
    }
  }
}

// Where the process stood when it died or hung.
void add_dump_line(const Timeline& timeline, const Event& event, Verdict& verdict) {
  const Exception* dump = dump_of(timeline, event);
  if (dump == nullptr || dump->frames.empty()) return;
  verdict.where = place_of(*dump);
  if (!verdict.where) return;
  Evidence piece = evidence_of(timeline, event, Role::kRoot);
  piece.line = dump->line;
  piece.offset = dump->offset;
  piece.text = dump->message;
  verdict.evidence.push_back(std::move(piece));
}

std::string title_of(const Event& event) {
  if (event.signature != nullptr && !event.signature->title.empty()) return event.signature->title;
  return std::string(info(category_of(event)).title);
}

std::string retry_reason(Retry retry) {
  switch (retry) {
    case Retry::kNever:
      return "the same would happen again";
    case Retry::kSameNode:
      return "a collision that need not happen again";
    case Retry::kOtherNode:
      return "the fault lies in this node or its links";
    case Retry::kAfterDelay:
      return "the other side may be back, or the resource free, later";
    case Retry::kUnknown:
      return "the log does not tell whether the cause is still there";
  }
  return "";
}

std::string mechanism_of(const Event& event) {
  if (event.signature != nullptr) return event.signature->id;
  return event.exception ? std::string(last_component(event.exception->type)) : "unknown";
}

// Where the job's own code stood. Of a failure that a library raises inside itself first, the rest
// of its chain tells.
std::optional<CodePlace> place_in_chain(const Timeline& timeline, const Event& event) {
  const auto is_own = [](const Frame& frame) { return frame.role == FrameRole::kUser; };
  const auto& frames = event.exception->frames;
  if (std::any_of(frames.begin(), frames.end(), is_own)) return place_of(*event.exception);
  for (const Exception* later : rest_of_chain(timeline, event)) {
    if (std::any_of(later->frames.begin(), later->frames.end(), is_own)) return place_of(*later);
  }
  return place_of(*event.exception);
}

// A wrapper that has lost what it carried still tells its type: "KeyError: Caught KeyError in …".
const Signature* of_carried_type(const Catalog& catalog, const Event& event) {
  const bool carries =
      event.exception && event.signature != nullptr && event.signature->id == "caught_in_worker";
  if (!carries) return nullptr;
  Exception bare;
  bare.type = event.exception->type;
  bare.frames = event.exception->frames;
  const Signature* found = catalog.classify(bare);
  return found != nullptr && found->role == Role::kRoot ? found : nullptr;
}

// What the event itself says; evidence of other events comes later.
Verdict verdict_of(const Catalog& catalog, const Timeline& timeline, const Event& event) {
  Verdict verdict;
  verdict.category = category_of(event);
  verdict.mechanism = mechanism_of(event);
  verdict.domain = event.signature == nullptr ? Domain::kUnknown : event.signature->domain;
  verdict.retry = event.signature == nullptr ? Retry::kUnknown : event.signature->retry;
  if (event.role != Role::kRoot && event.signature != nullptr &&
      event.signature->role != Role::kRoot && verdict.category == Category::kUnknown) {
    verdict.retry = Retry::kUnknown;
  }
  verdict.retry_reason = retry_reason(verdict.retry);
  verdict.title = title_of(event);
  verdict.confidence = confidence_of(event);
  verdict.stage = stage_of(catalog, timeline, event);
  if (event.exception) {
    verdict.where = place_in_chain(timeline, event);
    verdict.exception_type = event.exception->type;
    verdict.exception_message = event.exception->message;
  }
  if (event.signature != nullptr) {
    verdict.fix = event.signature->fix;
    verdict.collect_next = event.signature->collect_next;
  }
  verdict.evidence.push_back(evidence_of(timeline, event, Role::kRoot));
  add_message_line(timeline, event, verdict);
  add_dump_line(timeline, event, verdict);
  verdict.fingerprint = mechanism_fingerprint(verdict);
  verdict.fingerprint_exact =
      exact_fingerprint(verdict, event.exception ? &*event.exception : nullptr);
  return verdict;
}

// `message` is that of the cause, normalised.
bool same_failure(const Event& event, const Event& cause, const std::string& message) {
  if (event.signature != cause.signature) return false;
  if (event.exception.has_value() != cause.exception.has_value()) return false;
  return !event.exception || (event.exception->type == cause.exception->type &&
                              normalized(event.exception->message) == message);
}

// The other events become confirmation of the cause, or are ruled out by their role.
void explain_others(Timeline& timeline, size_t cause_index, Verdict& verdict) {
  Event& cause = timeline.events[cause_index];
  size_t same = 0;
  std::set<int> ranks;
  std::set<std::string> said;
  if (cause.rank >= 0) ranks.insert(cause.rank);
  const std::string message = cause.exception ? normalized(cause.exception->message) : "";
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    Event& event = timeline.events[i];
    if (i == cause_index) continue;
    if (same_failure(event, cause, message) && event.role == cause.role) {
      if (event.rank >= 0) ranks.insert(event.rank);
      if (++same <= kSameRootMax && verdict.evidence.size() < kEvidenceMax) {
        verdict.evidence.push_back(evidence_of(timeline, event, Role::kConfirmation));
      }
      continue;
    }
    if (event.role == Role::kRoot && earlier(cause, event)) event.role = Role::kCascade;
    if (event.role == Role::kConfirmation && verdict.evidence.size() < kEvidenceMax) {
      verdict.evidence.push_back(evidence_of(timeline, event, Role::kConfirmation));
      continue;
    }
    const std::string what = event.exception ? std::string(last_component(event.exception->type))
                             : event.signature != nullptr ? event.signature->id
                                                          : event.text;
    if (verdict.ruled_out.size() < kRuledOutMax && said.insert(what).second) {
      verdict.ruled_out.push_back({what, event.role, event.line});
    }
  }
  verdict.ranks.assign(ranks.begin(), ranks.end());
}

Verdict no_event_verdict(const Timeline& timeline) {
  Verdict verdict;
  verdict.mechanism = "no_error_in_the_log";
  if (timeline.finished || timeline.progress_as_error) {
    // Some launchers log all that a job says as errors.
    verdict.category = Category::kNoFailure;
    verdict.mechanism = timeline.finished ? "finished" : "progress_logged_as_error";
    verdict.retry = Retry::kNever;
    verdict.confidence = timeline.finished ? 0.9 : 0.6;
  } else {
    verdict.collect_next =
        timeline.bytes == 0
            ? "the log is empty: give the standard error of each rank"
            : "the log ends without an error: look at the exit code, the scheduler's record of the "
              "job (sacct, kubectl describe) and the kernel's log (dmesg) of its end";
  }
  verdict.title = info(verdict.category).title;
  verdict.retry_reason = verdict.category == Category::kNoFailure ? "there is nothing to repeat"
                                                                  : retry_reason(verdict.retry);
  verdict.stage = timeline.doing;
  verdict.fingerprint = mechanism_fingerprint(verdict);
  verdict.fingerprint_exact = exact_fingerprint(verdict, nullptr);
  return verdict;
}

void add_others(const Catalog& catalog, const Timeline& timeline, const std::vector<size_t>& order,
                Diagnosis& diagnosis) {
  constexpr double kWorthSaying = 8;
  std::set<std::string> said = {diagnosis.verdict.mechanism};
  for (const size_t index : order) {
    const Event& event = timeline.events[index];
    if (diagnosis.other.size() == kOtherMax || score_of(event) < kWorthSaying) break;
    if (!said.insert(mechanism_of(event)).second) continue;
    diagnosis.other.push_back(verdict_of(catalog, timeline, event));
  }
}

}  // namespace

Diagnosis resolve(const Catalog& catalog, Timeline timeline) {
  Diagnosis diagnosis;
  settle_chains(timeline.events);
  settle_quotations(timeline.events);
  settle_ended_by_launcher(timeline.events);
  const std::vector<size_t> order = by_score(timeline.events);
  // What the job survived, or said before it ended well, is no failure.
  const bool survived = order.empty() || score_of(timeline.events[order[0]]) <= 0 ||
                        (timeline.finished && timeline.finished_at == timeline.events.size() &&
                         score_of(timeline.events[order[0]]) < 30);
  if (survived) {
    if (!order.empty() && timeline.made_progress) timeline.finished = true;
    diagnosis.verdict = no_event_verdict(timeline);
  } else {
    const size_t cause = representative(timeline.events, order);
    if (const Signature* carried = of_carried_type(catalog, timeline.events[cause])) {
      timeline.events[cause].signature = carried;
      timeline.events[cause].role = Role::kRoot;
    }
    diagnosis.verdict = verdict_of(catalog, timeline, timeline.events[cause]);
    add_others(catalog, timeline, order, diagnosis);
    diagnosis.verdict.first_failing_rank = first_failing_rank(timeline, cause);
    explain_others(timeline, cause, diagnosis.verdict);
    compare_collectives(timeline, diagnosis.verdict);
  }
  diagnosis.verdict.last_step = timeline.last_step;
  if (timeline.last_step >= 0 && timeline.checkpoint_step >= 0 &&
      timeline.last_step >= timeline.checkpoint_step) {
    diagnosis.verdict.lost_steps = timeline.last_step - timeline.checkpoint_step;
  }
  diagnosis.timeline = std::move(timeline);
  return diagnosis;
}

}  // namespace paramedic::diagnose
