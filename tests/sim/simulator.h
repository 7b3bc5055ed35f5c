#pragma once
// A job of synchronous training, simulated: data, tensor and pipeline parallel ranks with jitter,
// one fault or none, and an agent that hears of it late and not of everything. It knows the truth.
// All follows from the seed. One thread.

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cluster/cluster.h"

namespace paramedic::sim {

enum class Fault : uint8_t {
  kNone,
  kLongPause,   // one rank evaluates or writes for long, the others wait: healthy
  kSleeps,      // a rank stops for ever, idle
  kSpins,       // the same, busy at one line
  kIsStopped,   // by SIGSTOP
  kDies,        // its process is gone
  kSkips,       // it leaves out one collective
  kRepeats,     // it makes one more
  kWrongShape,  // of one collective, which then never ends
  kSwaps,       // the order of two collectives
};
constexpr int kFaultCount = 10;
const char* fault_name(Fault fault);

struct Scenario {
  uint64_t seed = 0;
  int32_t data_parallel = 1;
  int32_t tensor_parallel = 1;
  int32_t pipeline_parallel = 1;
  int32_t steps = 6;
  Fault fault = Fault::kNone;
  int32_t guilty = 0;  // of the faults that one rank makes
  int32_t fault_step = 2;
  double lost_share = 0;  // of the rows of collectives
  double late_s = 0.5;    // at most, before the agent hears of a row

  [[nodiscard]] int32_t world() const {
    return data_parallel * tensor_parallel * pipeline_parallel;
  }
};

// A scenario of at most `ranks_max` ranks.
Scenario draw_scenario(uint64_t seed, int32_t ranks_max);

// What has to be found.
struct Truth {
  bool is_faulty = false;
  std::set<std::string> ids;    // one of these
  std::optional<int32_t> rank;  // nothing: no rank has to be named, but no wrong one either
  double began_s = 0;           // when the fault shows: the first rank waits for it
};

struct Play {
  Truth truth;
  std::vector<rules::Finding> findings;  // errors and warnings
  uint64_t rows = 0;
};

// Runs the scenario through a Cluster. Times begin at 1000 s.
Play play(const Scenario& scenario);

}  // namespace paramedic::sim
