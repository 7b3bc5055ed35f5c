#pragma once
// The other end of the control socket: for programs that read a live run or repair it. One thread.

#include <deque>
#include <string>

#include "record/control.h"
#include "supervise/fd.h"

namespace paramedic::supervise {

class ControlClient {
 public:
  // Connects to the agent of the run in `run_dir` and greets it; kNotFound when there is none.
  static Result<ControlClient> connect(const std::string& run_dir);

  Status send(const record::ControlMessage& message);
  // The next message, whatever its type but `hello`. kExhausted when none came in time; an `error`
  // of the agent is the Status. `timeout_ms` -1: as long as the agent lives.
  Result<record::ControlMessage> receive(int timeout_ms);
  // Readable when `receive` has something.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit ControlClient(Fd fd) : fd_(std::move(fd)) {}
  Status read_some();

  Fd fd_;
  record::ControlDecoder decoder_;
  std::deque<record::ControlMessage> arrived_;
};

// Has the agent of the run in `run_dir` make everything readable that was captured up to now, and
// waits for that at most `timeout_ms`. An error means that nobody did, as of a run that is over
// (kNotFound): what is on disk is all that there is to read.
Status request_flush(const std::string& run_dir, int timeout_ms);

}  // namespace paramedic::supervise
