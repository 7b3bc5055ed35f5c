#include "nodes/part.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/file.h"
#include "base/path.h"

namespace paramedic::nodes {
namespace {

// What comes without a look, as the parts of a long backlog do, waits for so long at most.
constexpr int64_t kLookAgainNs = 2'000'000'000;
// A call that is not left is stored after a second, and with the flush that follows.
constexpr int64_t kOpenCallNs = 1'000'000'000;

}  // namespace

// Every rank tells what it runs in, tens of kilobytes each. One of a node is kept, and who asks
// only for the host of a process gets that.
void NodeRows::on_setting(const store::EventRow& row) {
  auto json = parse_json(row.json, "an event");
  if (!json.ok() || !json->is_object()) return;
  store::EventRow copy{row.origin, row.kind, to_text({{"host", string_or(*json, "host", "")}})};
  copy.origin.time_ns = moved(row.origin.time_ns);
  if (row.kind == "facts") sink_.on_event(copy);
  shares_.settings.take(node_, copy, std::move(*json));
}

void NodeRows::on_event(const store::EventRow& row) {
  if (NodeSettings::is_of_settings(row)) return on_setting(row);
  if (row.origin.ring_id == 0 || row.kind == "rendezvous") return;
  if (offset_ns_ == 0 || row.kind != "stalled") return pass(row, &store::RowSink::on_event);
  // The one event that tells a time inside.
  auto json = parse_json(row.json, "an event");
  if (!json.ok() || !json->is_object()) return pass(row, &store::RowSink::on_event);
  store::EventRow copy = row;
  copy.origin.time_ns = moved(row.origin.time_ns);
  (*json)["since_ns"] = moved(integer_or(*json, "since_ns", row.origin.time_ns));
  copy.json = to_text(*json);
  sink_.on_event(copy);
}

void NodeRows::on_collective(const store::CollectiveRow& row) {
  if (offset_ns_ == 0) return sink_.on_collective(row);
  store::CollectiveRow copy = row;
  copy.origin.time_ns = moved(row.origin.time_ns);
  copy.entered_ns = moved(row.entered_ns);
  copy.left_ns = moved(row.left_ns);
  sink_.on_collective(copy);
}

// A counter of each machine: what has been added on any of them counts.
void NodeRows::on_metric(const store::MetricRow& row) {
  if (row.name != "cgroup_oom_kills") return;
  const double before = oom_kills_here_.value_or(row.value);
  oom_kills_here_ = row.value;
  shares_.oom_kills += std::max(row.value - before, 0.0);
  store::MetricRow copy = row;
  copy.time_ns = moved(row.time_ns);
  copy.value = shares_.oom_kills;
  sink_.on_metric(copy);
}

Part::Part(std::string dir, store::RowSink& sink, PartShares& shares)
    : dir_(std::move(dir)),
      node_(base_name(dir_)),
      tail_(dir_, shares.members),
      rows_(node_, sink, shares) {}

void Part::read(int64_t now_ns, int slices_max) {
  if (heard_ns_ == 0) heard_ns_ = now_ns;
  if (!has_more_) {
    if (!may_have_more(now_ns)) return;
    looked_ns_ = now_ns;
    found_rows_ = false;
    // The look before the rows: everything that it promises is there then.
    read_look(now_ns);
    read_info();
    // Before the first look nothing is known of its clock.
    if (look_text_.empty()) return;
    tail_.look();
    has_more_ = true;
  }
  for (int slice = 0; slice < slices_max && has_more_; ++slice) {
    has_more_ = tail_.read(rows_);
    found_rows_ = found_rows_ || has_more_;
  }
  if (has_more_ || !waiting_) return;
  take(*waiting_);
  waiting_.reset();
}

// A look is the last that a node sends of what it has. So one question about one file tells that
// nothing has come, where there are thousands of nodes and four rounds a second.
bool Part::may_have_more(int64_t now_ns) {
  struct stat facts = {};
  if (::stat((dir_ + "/" + kLookFile).c_str(), &facts) != 0) return false;
  const std::array<int64_t, 3> stamp = {static_cast<int64_t>(facts.st_ino), facts.st_size,
                                        modified_ns(facts)};
  return std::exchange(look_stamp_, stamp) != stamp || found_rows_ ||
         now_ns - looked_ns_ >= kLookAgainNs;
}

void Part::read_look(int64_t now_ns) {
  auto text = posix_file_system().read(dir_ + "/" + kLookFile);
  if (!text.ok() || *text == look_text_) return;
  const auto json = parse_json(*text, kLookFile);
  if (!json.ok()) return;
  auto look = Look::from_json(*json);
  if (!look.ok()) return;
  // A courier goes on when its agent is gone, and the clocks that it adds make each look another
  // one: only what the agent says is a sign of life.
  if (look->moment.time_ns != newest_look_ns_ || look->ended) heard_ns_ = now_ns;
  newest_look_ns_ = look->moment.time_ns;
  look_text_ = std::move(text).value();
  waiting_ = std::move(look).value();
  // An offset that is less than it may be wrong by is none.
  clock_ = waiting_->clock;
  const bool is_known = clock_ && std::abs(clock_->offset_ns) > clock_->error_ns;
  rows_.set_clock(is_known ? clock_->offset_ns : 0);
}

void Part::take(const Look& look) {
  ended_ = look.ended;
  told_until_ns_ = rows_.moved(look.stored_ns - (ended_ ? 0 : kOpenCallNs));
  processes_ = look.moment.processes;
  for (auto& process : processes_) {
    process.last_step_time_ns = rows_.moved(process.last_step_time_ns);
  }
}

void Part::read_info() {
  auto text = posix_file_system().read(dir_ + "/run.json");
  if (!text.ok() || *text == info_text_) return;
  info_text_ = std::move(text).value();
  const auto json = parse_json(info_text_, "run.json");
  if (!json.ok()) return;
  if (auto info = store::RunInfo::from_json(*json); info.ok()) info_ = std::move(info).value();
}

}  // namespace paramedic::nodes
