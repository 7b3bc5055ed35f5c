#pragma once
// TF_CONFIG as TensorFlow's strategies read it. Pure.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/lint/setting.h"

namespace paramedic::cluster {

struct TfConfig {
  std::map<std::string, std::vector<std::string>> cluster;  // job name → addresses
  std::string type;                                         // of this task; "" = none given
  int64_t index = -1;                                       // -1 = none given
  std::string error;                                        // why it cannot be read; "" = it can

  // The position of this task as a rank: the chief, workers, parameter servers, then any other;
  // the same as in python/paramedic/adapters/tensorflow/task.py.
  [[nodiscard]] std::optional<int32_t> rank() const;
  [[nodiscard]] std::string task() const;  // "worker:1"
};

TfConfig parse_tf_config(const std::string& text);

}  // namespace paramedic::cluster
