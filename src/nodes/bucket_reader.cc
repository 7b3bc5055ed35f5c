#include "nodes/bucket_reader.h"

#include <chrono>
#include <set>
#include <utility>

#include "nodes/bucket_transport.h"

namespace paramedic::nodes {
namespace {

constexpr auto kPause = std::chrono::seconds(1);

}  // namespace

Status BucketReader::read() {
  PARAMEDIC_ASSIGN(const auto names, bucket_->list(""));
  Status first;
  std::set<std::string> failed;  // nodes whose later parcels have to wait for an earlier one
  for (const std::string& name : names) {
    const auto parcel = parse_parcel_object(name);
    if (!parcel) continue;
    const std::string node = parcel->job + "/" + parcel->node;
    if (failed.contains(node)) continue;
    const Status status = take(name, parcel->job, parcel->node, parcel->number);
    if (status.ok()) continue;
    failed.insert(node);
    if (first.ok()) first = status;
  }
  return first;
}

Status BucketReader::take(const std::string& name, const std::string& job, const std::string& node,
                          uint64_t number) {
  PARAMEDIC_ASSIGN(const std::string bytes, bucket_->get(name));
  const auto parcel = decode_parcel(bytes);
  // What is no parcel, or speaks of another node, will not become one.
  if (!parcel.ok() || parcel->job != job || parcel->node != node) return bucket_->remove(name);
  PARAMEDIC_ASSIGN(Receipt receipt, take_(*parcel));
  receipt.received_ns = receipt.answered_ns = 0;
  const std::string text = encode(receipt);
  PARAMEDIC_ASSIGN(const Json json, parse_json(text, "a receipt"));
  Answer& answer = answers_[job + "/" + node];
  // Parcels that bring no rows follow it, fit, and are answered over it.
  if (receipt.has_sizes) answer.missed = {{"at", number}, {"receipt", json}};
  // The node reads how far we are only at its end and where something does not fit.
  const bool is_news = std::exchange(answer.receipt, text) != text;
  if (is_news || receipt.has_judged || number % 16 == 0) {
    PARAMEDIC_TRY(
        bucket_->put(receipt_object(job, node),
                     to_text({{"taken", number}, {"receipt", json}, {"missed", answer.missed}})));
  }
  return bucket_->remove(name);
}

BucketPoller::BucketPoller(BucketReader reader, std::function<void(const std::string&)> note)
    : reader_(std::move(reader)), note_(std::move(note)), thread_([this] { run(); }) {}

BucketPoller::~BucketPoller() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void BucketPoller::run() {
  bool has_failed = false;
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    lock.unlock();
    const Status status = reader_.read();
    if (!status.ok() && !has_failed) note_(status.message());
    has_failed = !status.ok();
    lock.lock();
    ends_.wait_for(lock, kPause, [this] { return is_over_; });
  }
}

}  // namespace paramedic::nodes
