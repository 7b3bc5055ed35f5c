#include "simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <utility>

#include "base/json.h"
#include "cluster/test_cluster.h"

namespace paramedic::sim {
namespace {

constexpr double kStart = 1000;
constexpr double kNever = 1e18;
constexpr double kTick = 0.5;
constexpr double kComputeS = 0.006;
constexpr double kTransferS = 0.0005;
constexpr int kLayers = 2;
constexpr int kBuckets = 2;
// How long the simulation goes on after everything stands still.
constexpr double kAftermathS = 14;
constexpr double kReportsS[] = {1.5, 3, 5, 8, 12, 20};

int64_t ns(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

// What a rank does next.
struct Op {
  enum class Kind : uint8_t { kCollective, kSend, kReceive };
  Kind kind = Kind::kCollective;
  int group = 0;      // of kCollective
  int32_t peer = -1;  // of the others
  std::string operation;
  std::vector<int64_t> sizes;
  int32_t line = 0;
  int32_t step = 0;
  bool stop_before = false;  // here the fault is
};

struct State {
  std::vector<Op> program;
  size_t next = 0;
  double free_at = kStart;  // its computation is done, and it enters the next operation
  double entered_at = -1;   // of the operation it is inside of; -1 = outside
  bool is_out = false;      // it never goes on
  double out_at = kNever;
  std::map<int, int64_t> calls;  // by group: made so far
};

struct Delivery {
  double written = 0;
  double at = 0;  // the agent hears of it
  int32_t rank = 0;
  std::optional<store::CollectiveRow> row;
  std::string kind;  // of an event
  std::string json;
};

// A stretch of time in which a rank did not come forward.
struct Stand {
  double from = 0;
  double to = kNever;
  int32_t rank = 0;
  const Op* op = nullptr;  // it waits in, or null where it stands before one
  bool is_busy = false;
  bool is_evaluating = false;
};

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario)
      : scenario_(scenario), random_(scenario.seed * 7919 + 1), ranks_(scenario.world()) {
    make_groups();
    for (int32_t rank = 0; rank < scenario.world(); ++rank) write_program(rank);
    inject();
  }

  Play run() {
    while (advance()) {
    }
    stand_still();
    return deliver();
  }

 private:
  [[nodiscard]] int32_t rank_of(int32_t d, int32_t t, int32_t p) const {
    return (p * scenario_.data_parallel + d) * scenario_.tensor_parallel + t;
  }

  int add_group(const std::string& description, std::vector<int32_t> members) {
    auto info = std::make_unique<store::GroupInfo>();
    info->name = fmt::format("{}", groups_.size());
    info->description = description;
    info->backend = "gloo";
    info->ranks = store::Members(std::move(members));
    groups_.push_back(std::move(info));
    return static_cast<int>(groups_.size()) - 1;
  }

  void make_groups() {
    std::vector<int32_t> all(static_cast<size_t>(scenario_.world()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    add_group("default_pg", all);
    tensor_groups_.resize(all.size(), 0);
    data_groups_.resize(all.size(), 0);
    for (int32_t p = 0; p < scenario_.pipeline_parallel; ++p) {
      for (int32_t d = 0; d < scenario_.data_parallel; ++d) {
        std::vector<int32_t> members;
        for (int32_t t = 0; t < scenario_.tensor_parallel; ++t) members.push_back(rank_of(d, t, p));
        const int group = add_group("tensor_parallel", members);
        for (const int32_t rank : members) tensor_groups_[static_cast<size_t>(rank)] = group;
      }
      for (int32_t t = 0; t < scenario_.tensor_parallel; ++t) {
        std::vector<int32_t> members;
        for (int32_t d = 0; d < scenario_.data_parallel; ++d) members.push_back(rank_of(d, t, p));
        const int group = add_group("data_parallel", members);
        for (const int32_t rank : members) data_groups_[static_cast<size_t>(rank)] = group;
      }
    }
  }

  void write_program(int32_t rank) {
    std::vector<Op>& program = ranks_[static_cast<size_t>(rank)].program;
    const int32_t stage = scenario_.data_parallel * scenario_.tensor_parallel;
    const int tensor = tensor_groups_[static_cast<size_t>(rank)];
    const int data = data_groups_[static_cast<size_t>(rank)];
    const auto collective = [&](int group, int64_t size, int32_t line, int32_t step) {
      if (groups_[static_cast<size_t>(group)]->ranks.size() < 2) return;
      program.push_back(
          {.group = group, .operation = "all_reduce", .sizes = {size}, .line = line, .step = step});
    };
    const auto transfer = [&](Op::Kind kind, int32_t peer, int32_t line, int32_t step) {
      if (peer < 0 || peer >= scenario_.world()) return;
      program.push_back({.kind = kind,
                         .peer = peer,
                         .operation = kind == Op::Kind::kSend ? "send" : "recv",
                         .sizes = {4096},
                         .line = line,
                         .step = step});
    };
    for (int32_t step = 0; step < scenario_.steps; ++step) {
      transfer(Op::Kind::kReceive, rank - stage, 20, step);
      for (int layer = 0; layer < kLayers; ++layer) {
        collective(tensor, 512 + 64 * layer, 24 + layer, step);
      }
      transfer(Op::Kind::kSend, rank + stage, 30, step);
      for (int bucket = 0; bucket < kBuckets; ++bucket) {
        collective(data, 25'000 + 1000 * bucket, 40 + bucket, step);
      }
      collective(0, 1, 50, step);
    }
  }

  // The collectives of the guilty rank in the step of the fault.
  std::vector<size_t> collectives_of_fault() {
    const auto& program = ranks_[static_cast<size_t>(scenario_.guilty)].program;
    std::vector<size_t> found;
    for (size_t i = 0; i < program.size(); ++i) {
      if (program[i].step == scenario_.fault_step && program[i].kind == Op::Kind::kCollective) {
        found.push_back(i);
      }
    }
    return found;
  }

  void inject() {
    auto& program = ranks_[static_cast<size_t>(scenario_.guilty)].program;
    const std::vector<size_t> candidates = collectives_of_fault();
    const size_t at = candidates[random_() % candidates.size()];
    truth_.is_faulty = scenario_.fault != Fault::kNone && scenario_.fault != Fault::kLongPause;
    if (truth_.is_faulty) truth_.rank = scenario_.guilty;
    truth_.ids = {"hang_missing_rank", "collective_mismatch", "hang_all_ranks"};
    switch (scenario_.fault) {
      case Fault::kNone:
        break;
      case Fault::kDies:
        truth_.ids = {"rank_died"};
        program[at].stop_before = true;
        break;
      case Fault::kLongPause:
      case Fault::kSleeps:
      case Fault::kSpins:
      case Fault::kIsStopped:
        truth_.ids = {"hang_missing_rank"};
        program[at].stop_before = true;
        break;
      case Fault::kSkips:
        forgive_ties(program[at].group);
        program.erase(program.begin() + static_cast<ptrdiff_t>(at));
        break;
      case Fault::kRepeats:
        forgive_ties(program[at].group);
        program.insert(program.begin() + static_cast<ptrdiff_t>(at), program[at]);
        program[at].line = 60;
        break;
      case Fault::kWrongShape:
        forgive_ties(program[at].group);
        program[at].sizes[0] -= 1;
        break;
      case Fault::kSwaps:
        // The next one is of another group or another size, since a step never repeats itself.
        forgive_ties(program[at].group);
        if (candidates.back() != at) {
          const size_t other = *std::upper_bound(candidates.begin(), candidates.end(), at);
          forgive_ties(program[other].group);
          std::swap(program[at], program[other]);
        } else {
          program[at].operation = "broadcast";
        }
        break;
    }
  }

  // Of two ranks that part nobody can say which is wrong.
  void forgive_ties(int group) {
    if (groups_[static_cast<size_t>(group)]->ranks.size() < 3) truth_.rank.reset();
  }

  double jitter() { return std::lognormal_distribution<double>(0, 0.15)(random_); }

  // One operation forward for every rank that can; false when none can.
  bool advance() {
    bool any = false;
    for (int32_t rank = 0; rank < scenario_.world(); ++rank) any = enter(rank) || any;
    for (size_t group = 0; group < groups_.size(); ++group) any = complete(group) || any;
    for (int32_t rank = 0; rank < scenario_.world(); ++rank) any = receive(rank) || any;
    return any;
  }

  bool enter(int32_t rank) {
    State& state = ranks_[static_cast<size_t>(rank)];
    if (state.is_out || state.entered_at >= 0 || state.next >= state.program.size()) return false;
    Op& op = state.program[state.next];
    if (op.stop_before) {
      op.stop_before = false;
      if (!stop(rank, state)) return true;
    }
    if (state.is_out) return false;
    state.entered_at = state.free_at;
    tell(rank, op, state.entered_at, 0);
    if (op.kind == Op::Kind::kSend) {
      sent_[{rank, op.peer}].push_back(state.entered_at);
      leave(rank, state.entered_at + kTransferS);
    }
    return true;
  }

  // The rank stops before its next operation; true when it goes on at once.
  bool stop(int32_t rank, State& state) {
    Stand stand{.from = state.free_at, .rank = rank};
    if (scenario_.fault == Fault::kLongPause) {
      stand.to = state.free_at + 4 + static_cast<double>(random_() % 20);
      stand.is_busy = stand.is_evaluating = true;
      state.free_at = stand.to;
      stands_.push_back(stand);
      return false;
    }
    stand.is_busy = scenario_.fault == Fault::kSpins;
    state.is_out = true;
    state.out_at = state.free_at;
    if (scenario_.fault != Fault::kDies && scenario_.fault != Fault::kIsStopped) {
      stands_.push_back(stand);
    }
    return true;
  }

  void leave(int32_t rank, double at) {
    State& state = ranks_[static_cast<size_t>(rank)];
    const Op& op = state.program[state.next];
    if (at - state.entered_at > kReportsS[0]) {
      stands_.push_back({.from = state.entered_at, .to = at, .rank = rank, .op = &op});
    }
    tell(rank, op, state.entered_at, at);
    state.entered_at = -1;
    ++state.next;
    state.free_at = at + kComputeS * jitter();
    last_ = std::max(last_, at);
  }

  // A collective ends when all members are inside, and never when they do not fit together.
  bool complete(size_t group) {
    double latest = 0;
    const Op* first = nullptr;
    for (const int32_t rank : groups_[group]->ranks) {
      const State& state = ranks_[static_cast<size_t>(rank)];
      if (state.entered_at < 0) return false;
      const Op& op = state.program[state.next];
      if (op.kind != Op::Kind::kCollective || op.group != static_cast<int>(group)) return false;
      if (first == nullptr) first = &op;
      if (op.operation != first->operation || op.sizes != first->sizes) return false;
      latest = std::max(latest, state.entered_at);
    }
    if (first == nullptr || groups_[group]->ranks.size() < 2) return false;
    for (const int32_t rank : groups_[group]->ranks) leave(rank, latest + kTransferS * jitter());
    return true;
  }

  bool receive(int32_t rank) {
    const State& state = ranks_[static_cast<size_t>(rank)];
    if (state.entered_at < 0) return false;
    const Op& op = state.program[state.next];
    if (op.kind != Op::Kind::kReceive) return false;
    auto& sent = sent_[{op.peer, rank}];
    if (sent.empty()) return false;
    const double at = std::max(sent.front(), state.entered_at) + kTransferS;
    sent.pop_front();
    leave(rank, at);
    return true;
  }

  // Who is inside of something now stays there.
  void stand_still() {
    for (int32_t rank = 0; rank < scenario_.world(); ++rank) {
      State& state = ranks_[static_cast<size_t>(rank)];
      if (state.entered_at >= 0) {
        stands_.push_back(
            {.from = state.entered_at, .rank = rank, .op = &state.program[state.next]});
        last_ = std::max(last_, state.entered_at);
        is_hung_ = true;
      }
      if (state.next >= state.program.size()) {
        state.is_out = true;
        state.out_at = state.free_at;
        send(rank, state.free_at, "exiting", R"({"exception": null})");
      }
    }
    truth_.began_s = last_;
    const double end = last_ + (is_hung_ ? kAftermathS : 1);
    for (const Stand& stand : stands_) report(stand, end);
    end_ = end;
  }

  void report(const Stand& stand, double end) {
    for (const double after : kReportsS) {
      const double at = stand.from + after;
      if (at >= std::min(stand.to, end)) break;
      Json json;
      json["since_ns"] = ns(stand.from);
      json["waiting"] = nullptr;
      const int32_t line = stand.op != nullptr ? stand.op->line : 70;
      if (stand.op != nullptr && stand.op->kind == Op::Kind::kCollective) {
        const auto& group = groups_[static_cast<size_t>(stand.op->group)];
        json["waiting"] = {
            {"group", group->name}, {"sequence", 0}, {"operation", stand.op->operation}};
      }
      json["phase"] = nullptr;
      json["evaluating"] = stand.is_evaluating;
      json["torch_calls_since"] = stand.is_evaluating ? static_cast<int>(after * 50) : 0;
      json["cpu_ms"] = stand.is_busy ? 500 : 1;
      json["stack"] = Json::array({{{"file", "/home/me/train.py"},
                                    {"line", line},
                                    {"function", stand.is_evaluating ? "evaluate" : "main"}}});
      json["flight"] = Json::object();
      send(stand.rank, at, "stalled", to_text(json));
    }
    if (stand.to < end && stand.to - stand.from > kReportsS[0]) {
      send(stand.rank, stand.to, "resumed", R"({"stalled_ms": 1})");
    }
  }

  void tell(int32_t rank, const Op& op, double entered, double left) {
    if (scenario_.lost_share > 0 &&
        std::uniform_real_distribution<double>()(random_) < scenario_.lost_share) {
      if (left == 0) ++ranks_[static_cast<size_t>(rank)].calls[op.group];
      return;
    }
    store::CollectiveRow row;
    State& state = ranks_[static_cast<size_t>(rank)];
    int64_t& calls = state.calls[op.group];
    row.sequence = left == 0 ? calls++ : calls - 1;
    row.origin = cluster::origin_of(rank, ns(left == 0 ? entered : left), op.step);
    row.group = groups_[static_cast<size_t>(op.group)].get();
    row.operation = op.operation;
    row.sizes = op.sizes;
    row.peer = op.peer;
    row.where = &sites_.try_emplace(op.line, store::CallSite{"/home/me/train.py", op.line, "main"})
                     .first->second;
    row.entered_ns = ns(entered);
    row.left_ns = left == 0 ? 0 : ns(left);
    const double written = left == 0 ? entered : left;
    deliveries_.push_back({written, late(written), rank, std::move(row), "", ""});
  }

  void send(int32_t rank, double at, std::string kind, std::string json) {
    deliveries_.push_back({at, late(at), rank, std::nullopt, std::move(kind), std::move(json)});
  }

  double late(double at) {
    return at + std::uniform_real_distribution<double>(0, scenario_.late_s)(random_);
  }

  [[nodiscard]] cluster::Moment look(double now) const {
    cluster::Moment moment;
    moment.time_ns = ns(now);
    for (int32_t rank = 0; rank < scenario_.world(); ++rank) {
      const State& state = ranks_[static_cast<size_t>(rank)];
      cluster::RankProcess process = cluster::process_of(rank, scenario_.world());
      const bool is_out = state.is_out && state.out_at <= now;
      const bool has_ended = is_out && state.next >= state.program.size();
      process.closed = has_ended;
      process.alive = !has_ended && !(is_out && scenario_.fault == Fault::kDies);
      if (is_out && scenario_.fault == Fault::kIsStopped) process.state = 'T';
      process.cpu_ms = process.tree_cpu_ms = busy_ms(rank, now);
      process.last_step = state.program.empty() ? -1 : std::max(0, scenario_.fault_step - 1);
      moment.processes.push_back(std::move(process));
    }
    return moment;
  }

  // Computing until it stands, and after that only where it stands busily.
  [[nodiscard]] uint64_t busy_ms(int32_t rank, double now) const {
    double busy = now - kStart;
    for (const Stand& stand : stands_) {
      if (stand.rank != rank || stand.is_busy || stand.from >= now) continue;
      busy -= std::min(now, stand.to) - stand.from;
    }
    const State& state = ranks_[static_cast<size_t>(rank)];
    const bool is_silent = scenario_.fault == Fault::kIsStopped || scenario_.fault == Fault::kDies;
    if (state.is_out && is_silent && state.out_at < now) busy -= now - state.out_at;
    return static_cast<uint64_t>(std::max(busy, 0.0) * 1000);
  }

  Play deliver() {
    // Rows of one rank keep their order, however late they are.
    std::vector<double> newest(static_cast<size_t>(scenario_.world()), 0);
    std::stable_sort(deliveries_.begin(), deliveries_.end(),
                     [](const auto& a, const auto& b) { return a.written < b.written; });
    for (Delivery& delivery : deliveries_) {
      double& last = newest[static_cast<size_t>(delivery.rank)];
      last = delivery.at = std::max(delivery.at, last);
    }
    std::stable_sort(deliveries_.begin(), deliveries_.end(),
                     [](const auto& a, const auto& b) { return a.at < b.at; });
    cluster::Found found;
    const auto cluster = cluster::Cluster::create(found);
    size_t next = 0;
    const auto ticks = static_cast<int>(std::ceil((end_ - kStart) / kTick));
    for (int tick = 0; tick < ticks; ++tick) {
      const double now = kStart + tick * kTick;
      for (; next < deliveries_.size() && deliveries_[next].at <= now; ++next) {
        pass_on(deliveries_[next], *cluster);
      }
      cluster->tick(look(now));
    }
    for (; next < deliveries_.size(); ++next) pass_on(deliveries_[next], *cluster);
    if (!is_hung_) cluster->finish();
    Play result;
    result.truth = truth_;
    result.rows = deliveries_.size();
    for (rules::Finding& finding : found.all()) {
      if (finding.severity != rules::Severity::kInfo) result.findings.push_back(std::move(finding));
    }
    return result;
  }

  void pass_on(const Delivery& delivery, cluster::Cluster& cluster) const {
    if (delivery.row) {
      cluster.on_collective(*delivery.row);
      return;
    }
    store::EventRow row;
    row.origin = cluster::origin_of(delivery.rank, ns(delivery.written));
    row.kind = delivery.kind;
    row.json = delivery.json;
    cluster.on_event(row);
  }

  const Scenario scenario_;
  std::mt19937_64 random_;
  std::vector<State> ranks_;
  std::vector<std::unique_ptr<store::GroupInfo>> groups_;
  std::vector<int> tensor_groups_;  // by rank
  std::vector<int> data_groups_;
  std::map<std::pair<int32_t, int32_t>, std::deque<double>> sent_;  // by source and destination
  std::map<int32_t, store::CallSite> sites_;                        // by line
  std::vector<Stand> stands_;
  std::vector<Delivery> deliveries_;
  Truth truth_;
  bool is_hung_ = false;
  double last_ = kStart;
  double end_ = kStart;
};

}  // namespace

const char* fault_name(Fault fault) {
  constexpr const char* kNames[kFaultCount] = {"none",        "long pause", "sleeps", "spins",
                                               "stopped",     "dies",       "skips",  "repeats",
                                               "wrong shape", "swaps"};
  return kNames[static_cast<size_t>(fault)];
}

Scenario draw_scenario(uint64_t seed, int32_t ranks_max) {
  std::mt19937_64 random(seed);
  Scenario scenario;
  scenario.seed = seed;
  const auto power = [&](int32_t max) { return int32_t{1} << (random() % (max + 1)); };
  do {
    scenario.data_parallel = static_cast<int32_t>(2 + random() % 15);
    scenario.tensor_parallel = power(3);
    scenario.pipeline_parallel = power(2);
  } while (scenario.world() > ranks_max || scenario.world() < 2);
  // Every third is healthy.
  scenario.fault = random() % 3 == 0 ? static_cast<Fault>(random() % 2)
                                     : static_cast<Fault>(2 + random() % (kFaultCount - 2));
  scenario.guilty = static_cast<int32_t>(random() % scenario.world());
  scenario.fault_step = static_cast<int32_t>(2 + random() % (scenario.steps - 2));
  scenario.lost_share = random() % 4 == 0 ? 0.001 : 0;
  scenario.late_s = static_cast<double>(random() % 100) / 100;
  return scenario;
}

Play play(const Scenario& scenario) { return Simulation(scenario).run(); }

}  // namespace paramedic::sim
