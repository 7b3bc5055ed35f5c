#pragma once
// What the watchdogs of several ranks say together: which collective each of them was in when its
// time was up. Pure.

#include "diagnose/event.h"
#include "diagnose/verdict.h"

namespace paramedic::diagnose {

// Sharpens the verdict on a collective that timed out: ranks that were in different collectives,
// one that is behind, all of them in the same one (the network), or why the log does not tell.
void compare_collectives(const Timeline& timeline, Verdict& verdict);

}  // namespace paramedic::diagnose
