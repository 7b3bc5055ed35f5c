#pragma once
// How ranks have ended, and which end was the first cause: when one rank dies the others fail for
// want of it, and the launcher ends the rest. Functions of the job as it stands.

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/job.h"

namespace paramedic::cluster {

enum class End : uint8_t {
  kNone,       // it runs, or is not known
  kWell,       // the interpreter's own end, no exception
  kException,  // an exception that nobody caught, of its own
  kVictim,     // an error of the connection to another rank, or ended by the launcher
  kSignal,     // killed by a signal
  kExit,       // by an exit code, past the interpreter's own end or not
};

struct RankEnd {
  int32_t rank = 0;
  End end = End::kNone;
  int64_t time_ns = 0;
  int signal = 0;
  std::optional<int> exit_code;
  bool ran_out_of_memory = false;
};

RankEnd end_of(const Job& job, const Rank& rank);
// It ended by itself, and not well.
bool is_bad(const RankEnd& end);

// The first rank that ended badly by itself, when the others did not end the same way. Nothing
// before it is certain who was first: more may come to light for a moment. `is_over`: nothing will.
std::optional<RankEnd> first_death(const Job& job, bool is_over);

// The rank that ended well while others then failed for want of it; nothing when a rank died.
std::optional<RankEnd> first_departure(const Job& job);

// Whether an exception tells of a peer or the network rather than of the rank that raised it.
bool is_of_connection(const Exiting& exiting);
bool is_of_memory(const Exiting& exiting);
// That an address is in use: of torch's store, and of the C library (gRPC, Python).
bool is_of_taken_port(const Exiting& exiting);

}  // namespace paramedic::cluster
