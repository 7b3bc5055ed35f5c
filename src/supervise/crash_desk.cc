#include "supervise/crash_desk.h"

#include <fmt/format.h>

#include <utility>

namespace paramedic::supervise {
namespace {

recovery::DeskOptions desk_options(const JobOptions& options) {
  recovery::DeskOptions desk;
  desk.asks_person = options.on_crash == OnCrash::kWait;
  desk.wait_limit_ns = int64_t{options.wait_limit_s} * 1'000'000'000;
  return desk;
}

}  // namespace

CrashDesk::CrashDesk(const JobOptions& options, Agent& agent, ControlServer& control, Say say)
    : agent_(agent), control_(control), say_(std::move(say)), desk_(desk_options(options), *this) {
  control_.set_handler(this);
}

CrashDesk::~CrashDesk() { control_.set_handler(nullptr); }

void CrashDesk::on_pause(const recovery::Crash& crash) {
  const std::string& dir = agent_.info().dir;
  const std::string run = dir.substr(dir.find_last_of('/') + 1);
  const std::string place = recovery::place_text(crash);
  say_(fmt::format("rank {} is paused at {} by {} (repair: paramedic attach {})", crash.rank,
                   place.empty() ? "an unknown place" : place, crash.exception, run));
}

void CrashDesk::on_change() {
  std::vector<Agent::PausedRank> ranks;
  for (const recovery::Crash* crash : desk_.waiting()) {
    ranks.push_back({crash->rank, crash->pid, crash->host});
  }
  agent_.set_paused(std::move(ranks), desk_.failure());
}

void CrashDesk::on_repair(store::RepairRow row, const recovery::Repair&) { agent_.add_repair(row); }

}  // namespace paramedic::supervise
