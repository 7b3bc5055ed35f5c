#pragma once
// The desk of recovery (recovery/desk.h) in its place: fed by the control socket, with the run
// folder, run.json and the terminal at its other side. The agent's thread alone.

#include <functional>
#include <map>
#include <string>

#include "recovery/desk.h"
#include "supervise/agent.h"
#include "supervise/control_server.h"
#include "supervise/job.h"
#include "supervise/notifier.h"

namespace paramedic::supervise {

class CrashDesk : public ControlHandler, public recovery::DeskWorld {
 public:
  using Say = std::function<void(const std::string&)>;
  using Ask = std::function<void()>;
  // Hangs itself on `control`, which it must not outlive. `say`: one line for people. `ask`: a
  // crash waits for a person, and `attach` would find it.
  CrashDesk(const JobOptions& options, Agent& agent, ControlServer& control, Say say,
            Ask ask = nullptr);
  ~CrashDesk() override;

  void tick();

  bool take(uint64_t connection, const record::ControlMessage& message) override {
    return desk_.take(connection, message);
  }
  void left(uint64_t connection) override { desk_.left(connection); }
  [[nodiscard]] bool is_patient(uint64_t connection) const override {
    return desk_.is_patient(connection);
  }

  void send(uint64_t connection, const record::ControlMessage& message) override {
    control_.send(connection, message);
  }
  void on_remedy(const recovery::Crash& crash, const recovery::Remedy& remedy) override;
  void on_pause(const recovery::Crash& crash) override;
  void on_change() override;
  void on_repair(store::RepairRow row, const recovery::Repair& repair) override;

 private:
  [[nodiscard]] std::string run_name() const;
  std::string keep_patch(const std::string& patch);

  Agent& agent_;
  ControlServer& control_;
  const Say say_;
  const Ask ask_;
  bool is_to_ask_ = false;
  int remedies_told_ = 0;
  std::map<std::string, std::string> patches_;  // text → file in the run folder
  Notifier notifier_;
  recovery::Desk desk_;
};

}  // namespace paramedic::supervise
