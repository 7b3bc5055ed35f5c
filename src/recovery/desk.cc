#include "recovery/desk.h"

#include <fmt/format.h>

#include <algorithm>

namespace paramedic::recovery {
namespace {

using record::ControlMessage;
using record::ControlType;

// Every rank of a node, with room for helpers of the job; one more fails as it would have.
constexpr size_t kCasesMax = 256;
constexpr size_t kServedMax = 1000;
constexpr size_t kReasonBytesMax = 4096;
// A process that needs one policy so often makes progress of no use to anybody.
constexpr int kPolicyUsesMax = 10'000;

double sum_of(const Json& parts) {
  double sum = 0;
  if (!parts.is_object()) return sum;
  for (const auto& [part, value] : parts.items()) {
    if (value.is_number()) sum += value.get<double>();
  }
  return sum;
}

// Only names and numbers: what a process sends is never passed on as it came.
Json parts_of(const Json& fields) {
  Json parts = Json::object();
  const auto found = fields.find("took_ms");
  if (found == fields.end() || !found->is_object()) return parts;
  for (const auto& [part, value] : found->items()) {
    if (value.is_number()) parts[part] = value.get<double>();
  }
  return parts;
}

bool is_scalar(const Json& value) { return value.is_primitive(); }

// What the process adds to the options of its remedy: how many parts, which samples. Flat.
Json additions_of(const Json& fields) {
  Json additions = Json::object();
  const auto found = fields.find("options");
  if (found == fields.end() || !found->is_object()) return additions;
  for (const auto& [name, value] : found->items()) {
    const bool is_list = value.is_array() && std::all_of(value.begin(), value.end(), is_scalar);
    if (is_scalar(value) || is_list) additions[name] = value;
  }
  return additions;
}

std::string reason_of(const Json& fields) {
  return string_or(fields, "reason", "").substr(0, kReasonBytesMax);
}

ControlMessage gone(const std::string& reason) {
  ControlMessage message{ControlType::kGone};
  message.fields["reason"] = reason;
  return message;
}

}  // namespace

Json outcome_json(bool resumed, const Repair& repair, const Crash* crash, double took_ms,
                  const std::string& reason) {
  const bool has_step = crash != nullptr && crash->step.has_value();
  return {{"schema", 1},
          {"resumed", resumed},
          {"kind", repair.kind},
          {"rank", crash == nullptr ? Json(nullptr) : Json(crash->rank)},
          {"step", has_step ? Json(*crash->step) : Json(nullptr)},
          {"took_ms", resumed ? Json(took_ms) : Json(nullptr)},
          {"reason", reason.empty() ? Json(nullptr) : Json(reason)}};
}

Desk::Desk(const DeskOptions& options, DeskWorld& world, const Clock& clock)
    : options_(options), world_(world), clock_(clock) {}

bool Desk::take(uint64_t connection, const ControlMessage& message) {
  switch (message.type) {
    case ControlType::kCrash:
      return open(connection, message.fields);
    case ControlType::kResumed:
      return on_resumed(connection, message.fields);
    case ControlType::kRefused:
      return on_refused(connection, message.fields);
    case ControlType::kView:
      return on_view(connection, message.fields);
    case ControlType::kRepair:
      repair(connection, message.fields);
      return true;
    case ControlType::kLook:
      look(connection, message.fields);
      return true;
    default:
      return false;
  }
}

bool Desk::open(uint64_t connection, const Json& fields) {
  if (of_connection(connection) != nullptr) return false;
  auto crash = Crash::from_json(fields);
  if (!crash.ok()) return false;
  if (cases_.size() >= kCasesMax) {
    world_.send(connection, gone("too many processes wait already"));
    return true;
  }
  Case& its = cases_.emplace_back();
  its.connection = connection;
  its.crash = std::move(crash).value();
  its.since_ns = clock_.monotonic_ns();
  its.attempt = its.crash.repeats;
  decide(its);
  return true;
}

// What helped another rank, then the policies, then a person.
void Desk::decide(Case& its) {
  if (!its.crash.asks.empty()) {
    if (!try_asked(its)) end(its, "what the rule's action asks for cannot be done here");
    return;
  }
  if (try_known(its) || try_policy(its)) return;
  if (!options_.asks_person) return end(its, "no policy helps here");
  its.state = State::kWaiting;
  world_.on_pause(its.crash);
  world_.on_change();
}

bool Desk::try_asked(Case& its) {
  for (const std::string& kind : its.crash.asks) {
    if (its.refused.contains(kind)) continue;
    Remedy remedy;
    remedy.title = its.crash.message;
    remedy.repair.kind = kind;
    remedy.repair.by = "policy";
    world_.on_remedy(its.crash, remedy);
    start(its, std::move(remedy.repair), std::nullopt, false);
    return true;
  }
  return false;
}

bool Desk::try_known(Case& its) {
  const auto known = served_.find(its.crash.fault());
  if (known == served_.end() || !known->second.pids.insert(its.crash.pid).second) return false;
  start(its, known->second.repair, std::nullopt, true);
  return true;
}

bool Desk::try_policy(Case& its) {
  if (options_.policies == nullptr) return false;
  auto remedy = options_.policies->remedy(its.crash, its.attempt);
  while (remedy && its.refused.contains(remedy->repair.kind)) {
    remedy = options_.policies->remedy(its.crash, ++its.attempt);
  }
  if (!remedy || ++uses_[{its.crash.pid, remedy->policy}] > kPolicyUsesMax) return false;
  world_.on_remedy(its.crash, *remedy);
  if (remedy->pause_ns == 0) {
    start(its, std::move(remedy->repair), std::nullopt, false);
    return true;
  }
  its.state = State::kPausing;
  its.repair = std::move(remedy->repair);
  its.due_ns = clock_.monotonic_ns() + remedy->pause_ns;
  return true;
}

bool Desk::on_resumed(uint64_t connection, const Json& fields) {
  Case* its = of_connection(connection);
  if (its == nullptr || its->state != State::kRepairing) return false;
  const Case served = std::move(*its);
  cases_.erase(cases_.begin() + (its - cases_.data()));
  store::RepairRow row = row_of(served, fields);
  const double took_ms = row.took_ms;
  world_.on_change();
  world_.on_repair(std::move(row), served.repair);
  if (served.asker) {
    // What of an edit could not count any more is a reason to look, though the job goes on.
    const std::string note = string_or(additions_of(fields), "note", "").substr(0, kReasonBytesMax);
    world_.send(*served.asker, {ControlType::kResumed,
                                outcome_json(true, served.repair, &served.crash, took_ms, note)});
  }
  serve_others(served);
  return true;
}

bool Desk::on_refused(uint64_t connection, const Json& fields) {
  Case* its = of_connection(connection);
  if (its == nullptr || its->state != State::kRepairing) return false;
  const std::string reason = reason_of(fields);
  if (its->asker) {
    world_.send(*its->asker,
                {ControlType::kRefused, outcome_json(false, its->repair, &its->crash, 0, reason)});
    its->asker.reset();
    its->state = State::kWaiting;
    world_.on_change();
    return true;
  }
  if (its->repair.by == "policy") its->refused.insert(its->repair.kind);
  decide(*its);
  return true;
}

bool Desk::on_view(uint64_t connection, const Json& fields) {
  Case* its = of_connection(connection);
  if (its == nullptr) return false;
  if (its->viewer) {
    ControlMessage answer{ControlType::kView};
    answer.fields["text"] = string_or(fields, "text", "");
    world_.send(*its->viewer, answer);
    its->viewer.reset();
  }
  return true;
}

void Desk::repair(uint64_t connection, const Json& fields) {
  auto asked = Repair::from_json(fields);
  if (!asked.ok()) return refuse(connection, {}, asked.status().message());
  std::optional<int32_t> rank;
  if (const int64_t given = integer_or(fields, "rank", -1); given >= 0) {
    rank = static_cast<int32_t>(given);
  }
  std::string why_not;
  Case* its = waiting_case(rank, why_not);
  if (its == nullptr) return refuse(connection, *asked, why_not);
  if (asked->kind == "abort") {
    world_.send(connection, {ControlType::kGone,
                             outcome_json(false, *asked, &its->crash, 0,
                                          "the process ends with its exception, as asked")});
    its->state = State::kEnding;
    failure_ = its->crash.verdict();
    ControlMessage message{ControlType::kRepair, asked->to_json()};
    world_.send(its->connection, message);
    world_.on_change();
    return;
  }
  start(*its, std::move(asked).value(), connection, bool_or(fields, "others", !rank));
}

// Without a question: all that waits, one message each, then `done`.
void Desk::look(uint64_t connection, const Json& fields) {
  const std::string question = string_or(fields, "question", "");
  if (question.empty()) {
    for (const Crash* crash : waiting()) {
      world_.send(connection, {ControlType::kCrash, crash->to_json()});
    }
    world_.send(connection, record::done_message(-1));
    return;
  }
  std::string why_not;
  const int64_t rank = integer_or(fields, "rank", -1);
  Case* its =
      waiting_case(rank < 0 ? std::nullopt : std::optional(static_cast<int32_t>(rank)), why_not);
  if (its == nullptr) return refuse(connection, {}, why_not);
  its->viewer = connection;
  ControlMessage message{ControlType::kLook};
  message.fields["question"] = question;
  message.fields["frame"] = integer_or(fields, "frame", -1);
  world_.send(its->connection, message);
}

void Desk::start(Case& its, Repair repair, std::optional<uint64_t> asker, bool is_for_all) {
  its.state = State::kRepairing;
  its.repair = std::move(repair);
  its.asker = asker;
  its.is_for_all = is_for_all;
  world_.send(its.connection, {ControlType::kRepair, its.repair.to_json()});
}

void Desk::end(Case& its, const std::string& reason) {
  its.state = State::kEnding;
  failure_ = its.crash.verdict();
  world_.send(its.connection, gone(reason));
  world_.on_change();
}

// Ranks that run the same code meet the same fault: what helped one is given to the others, those
// that wait now and those that come.
void Desk::serve_others(const Case& served) {
  if (!served.is_for_all || served.repair.by != "person") return;
  if (served_.size() >= kServedMax) return;
  const Fault fault = served.crash.fault();
  Served& entry = served_[fault];
  if (served.asker) entry = {served.repair, {}};
  entry.pids.insert(served.crash.pid);
  for (Case& its : cases_) {
    if (its.state != State::kWaiting || its.crash.fault() != fault) continue;
    if (!entry.pids.insert(its.crash.pid).second) continue;
    start(its, entry.repair, std::nullopt, true);
  }
}

void Desk::left(uint64_t connection) {
  for (Case& its : cases_) {
    if (its.asker == connection) its.asker.reset();
    if (its.viewer == connection) its.viewer.reset();
  }
  Case* its = of_connection(connection);
  if (its == nullptr) return;
  const std::string reason = "the process ended while it was being repaired";
  if (its->asker) {
    world_.send(*its->asker,
                {ControlType::kRefused, outcome_json(false, its->repair, &its->crash, 0, reason)});
  }
  if (failure_.is_null()) failure_ = its->crash.verdict();
  cases_.erase(cases_.begin() + (its - cases_.data()));
  world_.on_change();
}

void Desk::tick() {
  const int64_t now_ns = clock_.monotonic_ns();
  for (Case& its : cases_) {
    if (its.state == State::kPausing && now_ns >= its.due_ns) {
      start(its, Repair(its.repair), std::nullopt, false);
    } else if (its.state == State::kWaiting && now_ns - its.since_ns >= options_.wait_limit_ns) {
      end(its, "nobody repaired it within the limit");
    }
  }
}

bool Desk::is_patient(uint64_t connection) const {
  return std::any_of(cases_.begin(), cases_.end(), [connection](const Case& its) {
    return its.connection == connection || its.asker == connection || its.viewer == connection;
  });
}

std::vector<const Crash*> Desk::waiting() const {
  std::vector<const Crash*> crashes;
  for (const Case& its : cases_) {
    if (its.state == State::kWaiting) crashes.push_back(&its.crash);
  }
  return crashes;
}

Json Desk::failure() const {
  const auto crashes = waiting();
  return crashes.empty() ? failure_ : crashes.front()->verdict();
}

Desk::Case* Desk::of_connection(uint64_t connection) {
  const auto found = std::find_if(cases_.begin(), cases_.end(), [connection](const Case& its) {
    return its.connection == connection;
  });
  return found == cases_.end() ? nullptr : &*found;
}

Desk::Case* Desk::waiting_case(std::optional<int32_t> rank, std::string& why_not) {
  std::string ranks;
  for (Case& its : cases_) {
    if (its.state == State::kEnding) continue;
    if (rank && its.crash.rank != *rank) {
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", its.crash.rank);
      continue;
    }
    // Who does not want to wait for the policy need not.
    if (its.state == State::kWaiting || its.state == State::kPausing) return &its;
    why_not = fmt::format("rank {} is being repaired by somebody else", its.crash.rank);
  }
  if (why_not.empty()) {
    why_not = ranks.empty() ? "the run is not paused"
                            : fmt::format("rank {} is not paused (paused: {})", *rank, ranks);
  }
  return nullptr;
}

store::RepairRow Desk::row_of(const Case& its, const Json& fields) const {
  store::RepairRow row;
  row.time_ns = clock_.wall_ns();
  row.rank = its.crash.rank;
  row.pid = its.crash.pid;
  row.step = its.crash.step.value_or(-1);
  if (const Frame* place = its.crash.place(); place != nullptr) {
    row.file = place->file;
    row.line = place->line;
    row.function = place->function;
  }
  row.exception = its.crash.exception;
  row.message = its.crash.message;
  row.kind = its.repair.kind;
  row.by = its.repair.by;
  const Json parts = parts_of(fields);
  row.took_ms = sum_of(parts);
  Json detail = its.repair.to_json();
  detail.erase("patch");
  detail["options"].update(additions_of(fields));
  detail["parts_ms"] = parts;
  row.detail = to_text(detail);
  return row;
}

void Desk::refuse(uint64_t connection, const Repair& repair, const std::string& reason) {
  world_.send(connection, {ControlType::kRefused, outcome_json(false, repair, nullptr, 0, reason)});
}

}  // namespace paramedic::recovery
