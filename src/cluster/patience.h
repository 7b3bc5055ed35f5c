#pragma once
// How long others may wait for a rank before that is called a hang. One pure function over what is
// known of the rank, so that the whole policy can be read, and tested, as a table
// (docs/cluster.md).

#include <cstdint>
#include <string>

namespace paramedic::cluster {

// What the rank does for which the others wait.
enum class Doing : uint8_t {
  kGone,       // its process has ended: it will never come
  kStopped,    // by a signal or a debugger
  kDeadlock,   // it waits for those who wait for it
  kElsewhere,  // it waits in another collective, for somebody else
  kIdle,       // it sleeps, or waits for a lock, a queue, a pipe, always at the same line
  kBusy,       // it computes, always at the same line, and calls nothing of the framework
  kMoving,     // it computes, reads or writes: something goes on
  kWorking,    // the same, and in a phase that may be long: evaluation, checkpoint, compiling
  kUnknown,    // nothing is known about what it does
  kInside,     // it is in the collective with all others, and the collective does not end
};

struct Pause {
  Doing doing = Doing::kUnknown;
  double waited_s = 0;    // how long the others have been waiting
  bool is_start = false;  // no collective of these ranks has returned yet
  // The longest time that this place kept the others waiting and went on after all.
  double longest_before_s = 0;
};

struct Judgement {
  bool is_hang = false;
  double patience_s = 0;  // how long it may take
  double confidence = 0;  // of the verdict, when it is one
};

Judgement judge(const Pause& pause);

}  // namespace paramedic::cluster
