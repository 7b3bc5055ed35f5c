#pragma once
// Tells somebody outside that a job is paused (--notify): a URL gets a POST, anything else is a
// command. Starts programs and never waits for them. The agent's thread alone.

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/json.h"

namespace paramedic::supervise {

class Notifier {
 public:
  // `target`: "http://…", "https://…", or a command for the shell; "": nobody is told.
  explicit Notifier(std::string target) : target_(std::move(target)) {}
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  ~Notifier() = default;

  // `what` is the body of the POST, or the command's standard input. An error says why nobody was
  // told; what the program then meets is its own to say, on our stderr.
  Status tell(const Json& what);
  // Takes those that have ended. Called now and then.
  void reap();

 private:
  const std::string target_;
  std::vector<pid_t> running_;
};

}  // namespace paramedic::supervise
