#pragma once
// How far the command itself tells whether Paramedic could get into the job's Python. Pure.

#include <string>
#include <vector>

namespace paramedic::supervise {

// Why no framework was seen: "python was started with -I, which ignores PYTHONPATH, our way in".
std::string why_nothing_seen(const std::vector<std::string>& command);

}  // namespace paramedic::supervise
