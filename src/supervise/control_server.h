#pragma once
// The agent's end of the control socket (docs/formats/control.md): answers those who read a live
// run, and hands on what crashed processes and those who repair them say. Never waits, never fails
// the run: when no socket can be made there is none. The agent's thread alone; the socket's file is
// removed with the server.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "record/control.h"
#include "supervise/fd.h"

namespace paramedic::supervise {

// Takes the messages that are no reader's.
class ControlHandler {
 public:
  ControlHandler() = default;
  ControlHandler(const ControlHandler&) = delete;
  ControlHandler& operator=(const ControlHandler&) = delete;
  virtual ~ControlHandler() = default;

  // False: the message makes no sense, its sender is hung up on.
  virtual bool take(uint64_t connection, const record::ControlMessage& message) = 0;
  virtual void left(uint64_t connection) = 0;
  // Whether its silence is fine, since it is we who owe it something.
  [[nodiscard]] virtual bool is_patient(uint64_t connection) const = 0;
};

class ControlServer {
 public:
  // Makes what was captured up to now readable; answers the newest step, -1 before the first.
  using Flush = std::function<int64_t()>;

  // Listens in `run_dir`. Why it could not is in the log (level info). `set_handler` before the
  // first `serve`, or none but a reader's messages are taken; it must outlive the last one.
  ControlServer(const std::string& run_dir, Flush flush, const Clock& clock = real_clock());
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  ~ControlServer();

  void set_handler(ControlHandler* handler) { handler_ = handler; }

  // Readable when `serve` has something to do; -1 when nobody can connect.
  [[nodiscard]] int fd() const { return ready_.get(); }
  // Does what there is to do. Called when `fd` is readable and at least ten times a second.
  void serve();
  // Sends at once or hangs up; nothing where the connection is over already.
  void send(uint64_t connection, const record::ControlMessage& message);
  [[nodiscard]] size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    uint64_t number = 0;  // never used again
    Fd fd;
    int64_t heard_ns = 0;  // the last whole message
    record::ControlDecoder decoder = {};
    bool is_greeted = false;
    bool wants_flush = false;
    bool is_over = false;
  };

  Status listen(const std::string& run_dir);
  Status notify_of(int fd);
  void accept_some();
  void read_some(Connection& connection);
  void take(Connection& connection, const record::ControlMessage& message);
  void answer_flushes();
  void remove_ended();
  [[nodiscard]] size_t impatient() const;

  const Flush flush_;
  const Clock& clock_;
  ControlHandler* handler_ = nullptr;
  Fd folder_;
  Fd listener_;
  Fd ready_;
  bool has_file_ = false;
  std::vector<Connection> connections_;
  uint64_t next_number_ = 1;
  int64_t next_flush_ns_ = 0;
};

}  // namespace paramedic::supervise
