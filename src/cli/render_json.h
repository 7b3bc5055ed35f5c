#pragma once
// `show --json` as docs/cli.md and the contract define it.

#include "base/json.h"
#include "cli/report.h"

namespace paramedic::cli {

constexpr int kJsonSchema = 1;

Json render_json(const Report& report);

}  // namespace paramedic::cli
