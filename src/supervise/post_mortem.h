#pragma once
// Why a run failed: the verdict over all that its job wrote, with what its crash had told before.
// The same library and the same words as `paramedic diagnose`.

#include "base/json.h"
#include "diagnose/run.h"
#include "store/run.h"

namespace paramedic::supervise {

// Output beyond this is left to `paramedic diagnose`: the job's end must not wait for its reading.
constexpr uint64_t kJudgedBytesMax = uint64_t{1} << 30U;

// A verdict as in contract.md, `failure`. `crash`: what the desk made of an exception of the job,
// or null.
Result<Json> post_mortem(const store::RunInfo& info, const diagnose::Ending& ending,
                         const Json& crash);

}  // namespace paramedic::supervise
