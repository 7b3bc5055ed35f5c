#include "nodes/courier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "nodes/look.h"
#include "store/run.h"

namespace paramedic::nodes {
namespace {

constexpr int kStepMs = 500;
// While the end is waited for.
constexpr int kEndStepMs = 100;
constexpr int kRetryMs = 500;
constexpr int kRetryMsMax = 3000;
// This many parcels in a row, some twelve seconds, are lost before it is said: a collector that
// starts anew, or with the job, is no news.
constexpr int kFailuresTold = 7;
// Room for the look and the header in one parcel.
constexpr uint64_t kPiecesBytesMax = kParcelBytesMax / 2;

}  // namespace

Courier::Courier(CourierOptions options, std::unique_ptr<Transport> transport,
                 CourierCallbacks callbacks)
    : options_(std::move(options)),
      transport_(std::move(transport)),
      callbacks_(std::move(callbacks)),
      outbox_(options_.run_dir) {}

int Courier::step() {
  const Parcel parcel = next_parcel();
  const int64_t sent_ns = real_clock().wall_ns();
  const auto receipt = transport_->send(parcel);
  if (!receipt.ok()) return failed(receipt.status());
  if (!receipt->refused.empty()) {
    callbacks_.note("the collector refuses this node: " + receipt->refused);
    has_delivered_ = is_done_ = true;
    return 0;
  }
  if (receipt->received_ns != 0) {
    clock_.add(sent_ns, receipt->received_ns, receipt->answered_ns, real_clock().wall_ns(),
               transport_->clock_grain_ns());
  }
  take(parcel, *receipt);
  if (!is_all_) return 0;
  return std::max(has_delivered_ ? kEndStepMs : kStepMs, transport_->pace_ms());
}

Parcel Courier::next_parcel() {
  Parcel parcel;
  parcel.job = options_.job;
  parcel.node = options_.node;
  parcel.collector = collector_;
  parcel.findings_seen = findings_seen_;
  // Before the pieces: what look and info speak of is in the folder by then.
  read_info();
  std::string look = look_with_clock();
  if (!is_connected_) {
    parcel.asks_sizes = true;
    is_all_ = false;
    return parcel;
  }
  Outbox::Load load = outbox_.next(kPiecesBytesMax);
  parcel.pieces = std::move(load.pieces);
  is_all_ = load.is_all;
  if (!is_all_) return parcel;
  parcel.look = std::move(look);
  if (info_ != sent_info_) parcel.info = info_;
  return parcel;
}

void Courier::read_info() {
  auto text = posix_file_system().read(options_.run_dir + "/run.json");
  if (!text.ok() || *text == info_) return;
  info_ = std::move(text).value();
  const auto json = parse_json(info_, "run.json");
  if (!json.ok()) return;
  const std::string status = string_or(*json, "status", "running");
  has_ended_ = status != "running" && status != "paused";
}

std::string Courier::look_with_clock() {
  auto look = read_look(options_.run_dir);
  if (!look.ok()) return "";
  look->clock = clock_.offset();
  return to_text(look->to_json());
}

int Courier::failed(const Status& status) {
  is_connected_ = false;
  is_all_ = false;
  if (status.code() == StatusCode::kInvalidArgument) {
    callbacks_.note(status.to_string());
    has_delivered_ = is_done_ = true;
    return 0;
  }
  ++failures_;
  if (failures_ == kFailuresTold) {
    was_told_lost_ = true;
    callbacks_.note("the collector cannot be reached: " + status.message() +
                    "; what it misses stays in the run folder");
  }
  return std::min(kRetryMsMax, kRetryMs << std::min(failures_ - 1, 5));
}

void Courier::take(const Parcel& parcel, const Receipt& receipt) {
  failures_ = 0;
  if (std::exchange(was_told_lost_, false)) callbacks_.note("the collector is reached again");
  tell_findings(receipt);
  if (receipt.has_sizes) {
    // At the beginning, or because it has something else than we thought.
    is_connected_ = true;
    is_all_ = false;
    outbox_.know(receipt.sizes);
    return;
  }
  outbox_.delivered(parcel.pieces);
  if (!parcel.info.empty()) sent_info_ = parcel.info;
  has_delivered_ = has_ended_ && is_all_ && sent_info_ == info_;
  is_done_ = has_delivered_ && receipt.has_judged;
}

void Courier::tell_findings(const Receipt& receipt) {
  collector_ = receipt.collector;
  findings_seen_ = receipt.findings_count;
  for (const Receipt::Finding& finding : receipt.findings) callbacks_.finding(finding);
}

}  // namespace paramedic::nodes
