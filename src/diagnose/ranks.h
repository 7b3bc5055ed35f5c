#pragma once
// Which rank failed first. Pure.

#include "diagnose/event.h"

namespace paramedic::diagnose {

// The rank of the event at `cause`, or the one that its peers waited for, or -1 where the log does
// not tell.
int first_failing_rank(const Timeline& timeline, size_t cause);

}  // namespace paramedic::diagnose
