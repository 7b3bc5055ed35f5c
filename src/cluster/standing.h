#pragma once
// Where one rank stands: inside of a call that does not return, or somewhere else, and what it does
// there. Functions of the job as it stands.

#include <optional>

#include "cluster/stall.h"

namespace paramedic::cluster {

// The call in which the rank is blocked; nothing when it is not, or when that is not known.
std::optional<Waiter> waiter_of(const Job& job, int32_t rank);

// Whether Python stands inside of the framework, below which a collective may be waited for.
bool stands_in_framework(const StallReport& report);

// What a rank does that is in no call.
Suspect suspect_of(const Job& job, int32_t rank);

}  // namespace paramedic::cluster
