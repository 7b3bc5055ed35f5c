#include "nodes/bucket_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace paramedic::nodes {
namespace {

// Every object costs its owner something.
constexpr int kPaceMs = 2000;
constexpr size_t kDigits = 11;

class BucketTransport : public Transport {
 public:
  explicit BucketTransport(std::unique_ptr<Bucket> bucket) : bucket_(std::move(bucket)) {}

  Result<Receipt> send(const Parcel& parcel) override {
    if (!is_open_) PARAMEDIC_TRY(begin(parcel));
    PARAMEDIC_ASSIGN(Receipt receipt, newest_receipt(parcel));
    if (!receipt.refused.empty() || receipt.has_sizes) return receipt;
    if (parcel.asks_sizes) {
      receipt.has_sizes = true;
      receipt.sizes = sizes_;
      return receipt;
    }
    PARAMEDIC_TRY(bucket_->put(parcel_object(parcel.job, parcel.node, next_), encode(parcel)));
    ++next_;
    for (const Piece& piece : parcel.pieces) {
      uint64_t& size = sizes_[piece.file];
      size = std::max(size, piece.offset + piece.bytes.size());
    }
    return receipt;
  }

  [[nodiscard]] int64_t clock_grain_ns() const override { return 0; }
  [[nodiscard]] int pace_ms() const override { return kPaceMs; }

 private:
  // After the parcels of a courier before us, whether they have been taken or not. What these
  // brought comes again and is passed over.
  Status begin(const Parcel& parcel) {
    PARAMEDIC_ASSIGN(const auto names, bucket_->list(parcel.job + "/" + parcel.node + "/parcels"));
    for (const std::string& name : names) {
      if (const auto known = parse_parcel_object(name)) next_ = std::max(next_, known->number + 1);
    }
    PARAMEDIC_ASSIGN(const Json answer, answer_to(parcel));
    next_ = std::max(next_, static_cast<uint64_t>(integer_or(answer, "taken", -1) + 1));
    first_ = next_;
    is_open_ = true;
    return {};
  }

  // An empty object before the first answer.
  Result<Json> answer_to(const Parcel& parcel) {
    const auto text = bucket_->get(receipt_object(parcel.job, parcel.node));
    if (!text.ok()) {
      if (text.status().code() == StatusCode::kNotFound) return Json::object();
      return text.status();
    }
    PARAMEDIC_ASSIGN(Json answer, parse_json(*text, "the collector's answer"));
    if (!answer.is_object()) return corruption("the collector's answer is no JSON object");
    return answer;
  }

  Result<Receipt> newest_receipt(const Parcel& parcel) {
    Receipt receipt;
    receipt.collector = parcel.collector;
    receipt.findings_count = parcel.findings_seen;
    PARAMEDIC_ASSIGN(const Json answer, answer_to(parcel));
    const auto taken = static_cast<uint64_t>(integer_or(answer, "taken", -1) + 1);  // how many
    const auto told = answer.find("receipt");
    if (told == answer.end() || taken <= first_) return receipt;
    PARAMEDIC_ASSIGN(receipt, decode_receipt(to_text(*told)));
    // It is hours old, maybe: no times of a round trip.
    receipt.received_ns = receipt.answered_ns = 0;
    std::erase_if(receipt.findings, [&](const Receipt::Finding& finding) {
      return std::exchange(told_[finding.key], to_text(finding.json)) == to_text(finding.json);
    });
    // Everything up to our newest parcel, not only up to one that is long past.
    receipt.has_judged = receipt.has_judged && taken == next_;
    PARAMEDIC_TRY(read_missed(answer, receipt));
    return receipt;
  }

  // What did not fit is told once: what has been put between that and now fits as little.
  Status read_missed(const Json& answer, Receipt& receipt) {
    receipt.has_sizes = false;
    const auto missed = answer.find("missed");
    if (missed == answer.end() || !missed->is_object()) return {};
    const auto at = static_cast<uint64_t>(integer_or(*missed, "at", -1) + 1);
    const auto told = missed->find("receipt");
    if (at <= std::max(hole_, first_) || told == missed->end()) return {};
    PARAMEDIC_ASSIGN(const Receipt then, decode_receipt(to_text(*told)));
    hole_ = next_;
    sizes_ = then.sizes;
    receipt.has_sizes = true;
    receipt.sizes = then.sizes;
    return {};
  }

  const std::unique_ptr<Bucket> bucket_;
  bool is_open_ = false;
  uint64_t first_ = 0;  // number of our first parcel
  uint64_t next_ = 0;
  uint64_t hole_ = 0;                        // answers up to this number speak of one we know
  std::map<std::string, uint64_t> sizes_;    // of what has been put, by file
  std::map<std::string, std::string> told_;  // findings by key
};

}  // namespace

std::unique_ptr<Transport> make_bucket_transport(std::unique_ptr<Bucket> bucket) {
  return std::make_unique<BucketTransport>(std::move(bucket));
}

std::string parcel_object(const std::string& job, const std::string& node, uint64_t number) {
  return fmt::format("{}/{}/parcels/{:0{}}", job, node, number, kDigits);
}

std::string receipt_object(const std::string& job, const std::string& node) {
  return fmt::format("{}/{}/receipt", job, node);
}

std::optional<ParcelName> parse_parcel_object(const std::string& name) {
  constexpr std::string_view kMiddle = "/parcels/";
  const size_t slash = name.find('/');
  const size_t middle = name.find(kMiddle);
  if (slash == std::string::npos || middle == std::string::npos || middle <= slash) {
    return std::nullopt;
  }
  ParcelName parsed{name.substr(0, slash), name.substr(slash + 1, middle - slash - 1), 0};
  const std::string_view digits = std::string_view(name).substr(middle + kMiddle.size());
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, parsed.number);
  if (error != std::errc() || stop != end || digits.size() != kDigits) return std::nullopt;
  if (!is_plain_name(parsed.job) || !is_plain_name(parsed.node)) return std::nullopt;
  return parsed;
}

}  // namespace paramedic::nodes
