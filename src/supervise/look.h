#pragma once
// How the processes of a job's ranks stand: what their rings and /proc tell. One thread.

#include <map>
#include <string>

#include "cluster/moment.h"
#include "supervise/exits.h"
#include "supervise/rings.h"

namespace paramedic::supervise {

// `proc_root`: /proc, or a small folder in its place (tests). `exits` follows those that run.
cluster::Moment look_at(const std::map<int, RankState>& ranks, const std::string& proc_root,
                        int64_t time_ns, Exits& exits);

}  // namespace paramedic::supervise
