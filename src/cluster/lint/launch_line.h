#pragma once
// The options that torchrun, or `python -m torch.distributed.run|launch`, was given. Pure.

#include <map>
#include <string>
#include <vector>

#include "cluster/lint/setting.h"

namespace paramedic::cluster {

struct LaunchLine {
  std::map<std::string, std::string> options;  // by name with '-', as "rdzv-endpoint"
  int64_t nnodes = 1;                          // the larger number of "2:4"

  [[nodiscard]] std::string option(const std::string& name) const;
  // It meets at --master-addr and --master-port.
  [[nodiscard]] bool is_static() const;
  // Where rank 0's store will listen, when the line decides it; 0 when not.
  [[nodiscard]] int32_t store_port() const;
};

// Of the words of a process: those up to its script when it is such a launcher, else nothing.
std::vector<std::string> launch_words(const std::vector<std::string>& argv);

LaunchLine parse_launch(const Setting& launcher);

}  // namespace paramedic::cluster
