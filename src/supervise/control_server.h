#pragma once
// The agent's end of the control socket (docs/formats/control.md): answers those who read a live
// run. Never waits, never fails the run: when no socket can be made there is none. The agent's
// thread alone; the socket's file is removed with the server.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "record/control.h"
#include "supervise/fd.h"

namespace paramedic::supervise {

class ControlServer {
 public:
  // Makes what was captured up to now readable; answers the newest step, -1 before the first.
  using Flush = std::function<int64_t()>;

  // Listens in `run_dir`. Why it could not is in the log (level info).
  ControlServer(const std::string& run_dir, Flush flush, const Clock& clock = real_clock());
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  ~ControlServer();

  // Readable when `serve` has something to do; -1 when nobody can connect.
  [[nodiscard]] int fd() const { return ready_.get(); }
  // Does what there is to do. Called when `fd` is readable and at least ten times a second.
  void serve();
  [[nodiscard]] size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
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

  const Flush flush_;
  const Clock& clock_;
  Fd folder_;
  Fd listener_;
  Fd ready_;
  bool has_file_ = false;
  std::vector<Connection> connections_;
  int64_t next_flush_ns_ = 0;
};

}  // namespace paramedic::supervise
