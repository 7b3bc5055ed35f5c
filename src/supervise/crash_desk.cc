#include "supervise/crash_desk.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "base/path.h"
namespace paramedic::supervise {
namespace {

// A job that needs thousands of repairs must not bury its own output.
constexpr int kRemediesTold = 50;
constexpr size_t kPatchesMax = 1000;

std::string place_or_unknown(const recovery::Crash& crash) {
  std::string place = recovery::place_text(crash);
  return place.empty() ? "an unknown place" : place;
}

recovery::DeskOptions desk_options(const JobOptions& options) {
  recovery::DeskOptions desk;
  if (options.on_crash == OnCrash::kAuto) desk.policies = &recovery::Policies::builtin();
  desk.asks_person = options.on_crash == OnCrash::kWait ||
                     (options.on_crash == OnCrash::kAuto && options.has_terminal);
  desk.wait_limit_ns = int64_t{options.wait_limit_s} * 1'000'000'000;
  return desk;
}

}  // namespace

CrashDesk::CrashDesk(const JobOptions& options, Agent& agent, ControlServer& control, Say say,
                     Ask ask)
    : agent_(agent),
      control_(control),
      say_(std::move(say)),
      ask_(std::move(ask)),
      notifier_(options.notify),
      desk_(desk_options(options), *this) {
  control_.set_handler(this);
}

CrashDesk::~CrashDesk() { control_.set_handler(nullptr); }

void CrashDesk::tick() {
  desk_.tick();
  notifier_.reap();
}

std::string CrashDesk::run_name() const { return std::string(base_name(agent_.info().dir)); }

void CrashDesk::on_remedy(const recovery::Crash& crash, const recovery::Remedy& remedy) {
  if (remedies_told_ >= kRemediesTold) return;
  const double pause_s = static_cast<double>(remedy.pause_ns) / 1e9;
  std::string text = fmt::format("rank {}: {} at {} ({}): {}", crash.rank, remedy.title,
                                 place_or_unknown(crash), crash.exception, remedy.repair.kind);
  if (pause_s > 0) text += fmt::format(" in {:g} s", pause_s);
  if (!remedy.tell.empty()) text += "; " + remedy.tell;
  if (++remedies_told_ == kRemediesTold) text += " (the next ones are only in paramedic show)";
  say_(text);
}

void CrashDesk::on_pause(const recovery::Crash& crash) {
  const std::string attach = "paramedic attach " + run_name();
  const bool is_interrupt = crash.exception == "KeyboardInterrupt";
  is_to_ask_ = !is_interrupt;
  say_(fmt::format("rank {} is paused at {} by {} (repair: {}{})", crash.rank,
                   place_or_unknown(crash), is_interrupt ? "Ctrl-C" : crash.exception, attach,
                   is_interrupt ? " elsewhere; Ctrl-C again ends the job" : ""));
  const Json verdict = crash.verdict();
  const Status status = notifier_.tell({{"event", "paused"},
                                        {"run", run_name()},
                                        {"dir", agent_.info().dir},
                                        {"host", crash.host},
                                        {"rank", crash.rank},
                                        {"step", crash.step ? Json(*crash.step) : Json(nullptr)},
                                        {"where", verdict["where"]},
                                        {"exception", verdict["exception"]},
                                        {"attach", attach}});
  if (!status.ok()) say_(status.message());
}

void CrashDesk::on_change() {
  std::vector<Agent::PausedRank> ranks;
  for (const recovery::Crash* crash : desk_.waiting()) {
    ranks.push_back({crash->rank, crash->pid, crash->host});
  }
  agent_.set_paused(std::move(ranks), desk_.failure());
  if (std::exchange(is_to_ask_, false) && ask_) ask_();
}

void CrashDesk::on_repair(store::RepairRow row, const recovery::Repair& repair) {
  if (repair.kind == "edit") row.patch = keep_patch(repair.patch);
  agent_.add_repair(row);
}

// The edit is in memory only: its file lets the person keep it, and a rank that is started again
// apply it. "" where it cannot be written.
std::string CrashDesk::keep_patch(const std::string& patch) {
  if (const auto known = patches_.find(patch); known != patches_.end()) return known->second;
  if (patches_.size() >= kPatchesMax) return "";
  FileSystem& files = posix_file_system();
  std::string name = fmt::format("repairs/{}.patch", patches_.size() + 1);
  const auto write = [&]() -> Status {
    PARAMEDIC_TRY(files.make_folders(agent_.info().dir + "/repairs"));
    return files.write_atomically(agent_.info().dir + "/" + name, as_bytes(patch));
  };
  if (const Status status = write(); !status.ok()) {
    say_("the edit is not kept: " + status.message());
    return "";
  }
  say_(fmt::format("the edit is kept: patch -p1 < {}/{}", agent_.info().dir, name));
  patches_.emplace(patch, name);
  return name;
}

}  // namespace paramedic::supervise
