#include "cluster/passes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "base/in_order.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kLoadersEpochsMax = 64;  // passes kept
constexpr size_t kRanksMax = 100'000;
constexpr int64_t kSetSizeMax = int64_t{1} << 40;

const Json& member(const Json& json, const char* key) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

std::optional<int64_t> integer_of(const Json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  return json.get<int64_t>();
}

rules::Where where_of(const Json& json) {
  return {string_or(json, "file", ""), static_cast<int32_t>(integer_or(json, "line", 0)),
          string_or(json, "function", "")};
}

// Base64 as RFC 4648 has it; what is no digit ends it.
std::vector<uint8_t> bytes_of(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static const std::array<int8_t, 256> kValues = [] {
    std::array<int8_t, 256> values{};
    values.fill(-1);
    for (size_t i = 0; i < kDigits.size(); ++i) {
      values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
    }
    return values;
  }();
  std::vector<uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t buffer = 0;
  int bits = 0;
  for (const char digit : text) {
    const int8_t value = kValues[static_cast<uint8_t>(digit)];
    if (value < 0) break;
    buffer = buffer << 6U | static_cast<uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<uint8_t>(buffer >> static_cast<unsigned>(bits)));
  }
  return bytes;
}

std::optional<SampleSet> set_of(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  SampleSet set;
  set.size = integer_or(json, "size", 0);
  set.modulus = integer_or(json, "modulus", 0);
  set.read = integer_or(json, "read", 0);
  if (set.size < 1 || set.size > kSetSizeMax || set.modulus < 1) return std::nullopt;
  set.bits = bytes_of(string_or(json, "bits", ""));
  const int64_t places = (set.size + set.modulus - 1) / set.modulus;
  if (static_cast<int64_t>(set.bits.size()) != (places + 7) / 8) return std::nullopt;
  for (const uint8_t byte : set.bits) set.distinct += std::popcount(byte);
  if (set.read < set.distinct) return std::nullopt;
  return set;
}

DatasetFacts dataset_of(const Json& json) {
  DatasetFacts facts;
  facts.class_name = string_or(json, "class", "");
  facts.length = integer_or(json, "length", -1);
  facts.print = string_or(json, "print", "");
  facts.where = where_of(member(json, "where"));
  return facts;
}

SamplerFacts sampler_of(const Json& json) {
  SamplerFacts facts;
  facts.class_name = string_or(json, "class", "");
  facts.replicas = integer_of(member(json, "replicas"));
  facts.rank = integer_of(member(json, "rank"));
  facts.epoch = integer_of(member(json, "epoch"));
  if (const Json& shuffle = member(json, "shuffle"); shuffle.is_boolean()) {
    facts.shuffle = shuffle.get<bool>();
  }
  facts.drop_last = bool_or(json, "drop_last", false);
  facts.replacement = bool_or(json, "replacement", false);
  facts.part = bool_or(json, "part", false);
  facts.own = bool_or(json, "own", false);
  facts.where = where_of(member(json, "where"));
  return facts;
}

std::optional<Sharing> sharing_of(const Json& json, store::MembersBook& members) {
  auto ranks = store::ranks_of(member(json, "ranks"));
  if (!ranks) return std::nullopt;
  return Sharing{members.share(*std::move(ranks)), bool_or(json, "join", false)};
}

PassBegun begun_of(const Json& json, store::MembersBook& members) {
  PassBegun begun;
  begun.where = where_of(member(json, "where"));
  begun.batches = integer_of(member(json, "batches"));
  begun.batch_size = std::max<int64_t>(1, integer_or(json, "batch_size", 1));
  begun.batches_a_step = std::max<int64_t>(1, integer_or(json, "batches_a_step", 1));
  begun.drop_last = bool_or(json, "drop_last", false);
  begun.loop = string_or(json, "loop", "");
  begun.sampler = sampler_of(member(json, "sampler"));
  begun.dataset = dataset_of(member(json, "dataset"));
  if (member(json, "root").is_object()) begun.root = dataset_of(member(json, "root"));
  begun.sharing = sharing_of(member(json, "sharing"), members);
  return begun;
}

std::vector<uint32_t> contents_of(const std::string& text) {
  const std::vector<uint8_t> bytes = bytes_of(text);
  std::vector<uint32_t> contents;
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    contents.push_back(
        static_cast<uint32_t>(bytes[at]) | static_cast<uint32_t>(bytes[at + 1]) << 8U |
        static_cast<uint32_t>(bytes[at + 2]) << 16U | static_cast<uint32_t>(bytes[at + 3]) << 24U);
  }
  put_in_order(contents);
  return contents;
}

PassRead read_of(const Json& json, int64_t time_ns) {
  PassRead read;
  read.over = bool_or(json, "over", false);
  read.exhausted = bool_or(json, "exhausted", false);
  read.time_ns = time_ns;
  read.batches = integer_or(json, "batches", 0);
  read.samples = integer_or(json, "samples", 0);
  read.order = string_or(json, "order", "");
  read.ids = set_of(member(json, "ids"));
  read.root_ids = set_of(member(json, "root_ids"));
  if (const Json& pairs = member(json, "pairs"); pairs.is_array()) {
    for (const Json& pair : pairs) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer()) continue;
      if (pair[1].is_number_unsigned())
        read.pairs[pair[0].get<int64_t>()] = pair[1].get<uint32_t>();
    }
  }
  const Json& contents = member(json, "contents");
  read.contents = contents_of(string_or(contents, "hashes", ""));
  read.contents_read = integer_or(contents, "read", 0);
  return read;
}

}  // namespace

const Pass* Passes::take(const store::EventRow& row) {
  const bool is_begun = row.kind == "epoch_begun";
  if (!is_begun && row.kind != "epoch_read") return nullptr;
  const auto json = parse_json(row.json, "an event");
  if (!json.ok()) return nullptr;
  std::pair key(string_or(json.value(), "loader", ""), integer_or(json.value(), "epoch", -1));
  const int32_t rank = row.origin.rank;
  if (!is_begun) {
    const auto known = passes_.find(key);
    if (known == passes_.end()) return nullptr;
    const auto mine = known->second.ranks.find(rank);
    if (mine == known->second.ranks.end()) return nullptr;
    mine->second.read = read_of(json.value(), row.origin.time_ns);
    return &known->second;
  }
  if (!passes_.contains(key) && passes_.size() >= kLoadersEpochsMax) {
    const auto oldest = std::min_element(
        passes_.begin(), passes_.end(),
        [](const auto& one, const auto& other) { return one.first.second < other.first.second; });
    passes_.erase(oldest);
  }
  Pass& pass = passes_[key];
  pass.loader = key.first;
  pass.epoch = key.second;
  if (pass.ranks.size() >= kRanksMax) return nullptr;
  pass.ranks[rank] = {begun_of(json.value(), members_), std::nullopt};
  return &pass;
}

const Pass* Passes::find(const std::string& loader, int64_t epoch) const {
  const auto known = passes_.find({loader, epoch});
  return known == passes_.end() ? nullptr : &known->second;
}

}  // namespace paramedic::cluster
