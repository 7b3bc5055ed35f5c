#pragma once
// Where crashes are reported and repairs are given out: who waits, who is asked, what was done.
// It knows connections only by their numbers, sends through `DeskWorld`, and never waits itself.
// One thread, that of the agent.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "record/control.h"
#include "recovery/crash.h"
#include "recovery/policies.h"
#include "recovery/repair.h"
#include "store/rows.h"

namespace paramedic::recovery {

struct DeskOptions {
  const Policies* policies = nullptr;  // null: none; must outlive the desk
  bool asks_person = true;             // else a crash that nothing else helps ends the job at once
  int64_t wait_limit_ns = 3'600'000'000'000;
};

// What the desk does to the world around it.
class DeskWorld {
 public:
  DeskWorld() = default;
  DeskWorld(const DeskWorld&) = delete;
  DeskWorld& operator=(const DeskWorld&) = delete;
  virtual ~DeskWorld() = default;

  virtual void send(uint64_t connection, const record::ControlMessage& message) = 0;
  // A policy found a remedy, which is tried after its pause.
  virtual void on_remedy(const Crash& crash, const Remedy& remedy) = 0;
  // A person is waited for from now on.
  virtual void on_pause(const Crash& crash) = 0;
  // `waiting()` or `failure()` is another one.
  virtual void on_change() = 0;
  // Called before whoever asked for the repair is told.
  virtual void on_repair(store::RepairRow row, const Repair& repair) = 0;
};

class Desk {
 public:
  Desk(const DeskOptions& options, DeskWorld& world, const Clock& clock = real_clock());

  // False: a message that makes no sense at this point; its sender is not to be trusted further.
  bool take(uint64_t connection, const record::ControlMessage& message);
  // The other side of `connection` has hung up.
  void left(uint64_t connection);
  // Does what is due: remedies after their pause, and lets those go for whom nobody came within the
  // limit. About ten times a second.
  void tick();
  // Whether we owe `connection` an answer, so that its silence is fine.
  [[nodiscard]] bool is_patient(uint64_t connection) const;

  // Crashes for which a person is waited, the longest first.
  [[nodiscard]] std::vector<const Crash*> waiting() const;
  // Why the job is paused, or, when it is not, why a process of it was let fail; else null.
  [[nodiscard]] Json failure() const;

 private:
  enum class State : uint8_t {
    kPausing,    // until a remedy is due
    kWaiting,    // for a person
    kRepairing,  // the process tries `repair`
    kEnding,     // it was told to fail
  };
  struct Case {
    uint64_t connection = 0;
    Crash crash;
    int64_t since_ns = 0;
    int64_t due_ns = 0;  // of the remedy
    State state = State::kWaiting;
    Repair repair;
    std::optional<uint64_t> asker;   // who wants to know how `repair` went
    std::optional<uint64_t> viewer;  // who asked a question of the frame
    bool is_for_all = false;         // `repair` may serve other ranks with the same fault
    int attempt = 0;                 // of the policy
    std::set<std::string> refused;   // kinds of remedies
  };

  bool open(uint64_t connection, const Json& fields);
  bool on_resumed(uint64_t connection, const Json& fields);
  bool on_refused(uint64_t connection, const Json& fields);
  bool on_view(uint64_t connection, const Json& fields);
  void decide(Case& its);
  bool try_asked(Case& its);
  bool try_known(Case& its);
  bool try_policy(Case& its);
  void repair(uint64_t connection, const Json& fields);
  void look(uint64_t connection, const Json& fields);
  void start(Case& its, Repair repair, std::optional<uint64_t> asker, bool is_for_all);
  void end(Case& its, const std::string& reason);
  void serve_others(const Case& served);
  Case* of_connection(uint64_t connection);
  Case* waiting_case(std::optional<int32_t> rank, std::string& why_not);
  [[nodiscard]] store::RepairRow row_of(const Case& its, const Json& fields) const;
  void refuse(uint64_t connection, const Repair& repair, const std::string& reason);

  const DeskOptions options_;
  DeskWorld& world_;
  const Clock& clock_;
  std::vector<Case> cases_;  // in the order of their crashes
  // The newest repair of each fault, and which processes it has served.
  struct Served {
    Repair repair;
    std::set<int32_t> pids;
  };
  std::map<Fault, Served> served_;
  std::map<std::pair<int32_t, std::string>, int> uses_;  // of each policy in each process
  Json failure_ = nullptr;
};

// What a person who asked is told: contract.md, `repair --json`.
Json outcome_json(bool resumed, const Repair& repair, const Crash* crash, double took_ms,
                  const std::string& reason);

}  // namespace paramedic::recovery
