#include "nodes/parcel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "store/segment_format.h"

namespace paramedic::nodes {
namespace {

constexpr std::string_view kMagic = "PMDPARC1";
constexpr size_t kPrefixBytes = kMagic.size() + sizeof(uint32_t);
constexpr size_t kNameBytesMax = 100;
constexpr size_t kFindingsMax = 1000;

// Reads the pieces that the header names out of what follows it.
Status take_pieces(const Json& header, std::string_view body, Parcel& parcel) {
  const auto pieces = header.find("pieces");
  if (pieces == header.end() || !pieces->is_array()) return {};
  if (pieces->size() > kPiecesMax) {
    return corruption(fmt::format("a parcel of {} pieces", pieces->size()));
  }
  for (const Json& item : *pieces) {
    if (!item.is_object()) return corruption("a piece of a parcel is no JSON object");
    Piece piece;
    piece.file = string_or(item, "file", "");
    piece.offset = unsigned_or(item, "offset", 0);
    const uint64_t bytes = unsigned_or(item, "bytes", 0);
    if (!is_segment_file(piece.file)) {
      return corruption("a parcel has a piece of no segment: " + piece.file.substr(0, 80));
    }
    if (bytes > body.size()) return corruption("a parcel ends inside of " + piece.file);
    piece.bytes = body.substr(0, bytes);
    body.remove_prefix(bytes);
    parcel.pieces.push_back(std::move(piece));
  }
  if (!body.empty()) return corruption("bytes follow the last piece of a parcel");
  return {};
}

}  // namespace

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  });
}

bool is_segment_file(std::string_view file) {
  static constexpr std::array<std::string_view, 7> kTables = {
      "scalars", "events", "model", "collectives", "metrics", "findings", "repairs"};
  const size_t slash = file.find('/');
  if (slash == std::string_view::npos || file.size() > kNameBytesMax) return false;
  if (std::find(kTables.begin(), kTables.end(), file.substr(0, slash)) == kTables.end()) {
    return false;
  }
  const std::string_view name = file.substr(slash + 1);
  for (const std::string_view ending : {store::kIndexEnding, store::kDataEnding}) {
    const auto parsed = store::SegmentName::parse(name, ending);
    // One way to write a name, so that no two names are one segment.
    if (parsed && name == parsed->stem() + std::string(ending)) return true;
  }
  return false;
}

std::string encode(const Parcel& parcel) {
  Json header;
  header["job"] = parcel.job;
  header["node"] = parcel.node;
  header["asks_sizes"] = parcel.asks_sizes;
  header["info"] = parcel.info;
  header["look"] = parcel.look;
  header["collector"] = parcel.collector;
  header["findings_seen"] = parcel.findings_seen;
  header["pieces"] = Json::array();
  for (const Piece& piece : parcel.pieces) {
    header["pieces"].push_back(
        {{"file", piece.file}, {"offset", piece.offset}, {"bytes", piece.bytes.size()}});
  }
  const std::string text = to_text(header);
  const auto length = static_cast<uint32_t>(text.size());
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
  for (const Piece& piece : parcel.pieces) bytes += piece.bytes;
  return bytes;
}

Result<Parcel> decode_parcel(std::string_view bytes) {
  if (bytes.size() > 2 * kParcelBytesMax) {
    return corruption(fmt::format("a parcel of {} bytes", bytes.size()));
  }
  if (bytes.size() < kPrefixBytes || bytes.substr(0, kMagic.size()) != kMagic) {
    return corruption("the bytes are no parcel");
  }
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + kMagic.size(), sizeof length);
  const std::string_view rest = bytes.substr(kPrefixBytes);
  if (length > rest.size()) return corruption("a parcel ends inside of its header");
  PARAMEDIC_ASSIGN(const Json header, parse_json(rest.substr(0, length), "a parcel"));
  if (!header.is_object()) return corruption("the header of a parcel is no JSON object");
  Parcel parcel;
  parcel.job = string_or(header, "job", "");
  parcel.node = string_or(header, "node", "");
  if (!is_plain_name(parcel.job) || !is_plain_name(parcel.node)) {
    return corruption("a parcel without the name of its job or node");
  }
  parcel.asks_sizes = bool_or(header, "asks_sizes", false);
  parcel.info = string_or(header, "info", "");
  parcel.look = string_or(header, "look", "");
  parcel.collector = string_or(header, "collector", "");
  parcel.findings_seen = unsigned_or(header, "findings_seen", 0);
  PARAMEDIC_TRY(take_pieces(header, rest.substr(length), parcel));
  return parcel;
}

std::string encode(const Receipt& receipt) {
  Json json;
  json["refused"] = receipt.refused;
  if (receipt.has_sizes) {
    json["sizes"] = Json::array();
    for (const auto& [file, size] : receipt.sizes) json["sizes"].push_back({file, size});
  }
  json["received_ns"] = receipt.received_ns;
  json["answered_ns"] = receipt.answered_ns;
  json["collector"] = receipt.collector;
  json["findings_count"] = receipt.findings_count;
  json["has_judged"] = receipt.has_judged;
  json["findings"] = Json::array();
  for (const auto& finding : receipt.findings) {
    json["findings"].push_back({{"key", finding.key}, {"finding", finding.json}});
  }
  return to_text(json);
}

Result<Receipt> decode_receipt(std::string_view bytes) {
  PARAMEDIC_ASSIGN(const Json json, parse_json(bytes, "the collector's answer"));
  if (!json.is_object()) return corruption("the collector's answer is no JSON object");
  Receipt receipt;
  receipt.refused = string_or(json, "refused", "");
  const auto sizes = json.find("sizes");
  if (sizes != json.end() && sizes->is_array()) {
    receipt.has_sizes = true;
    for (const Json& item : *sizes) {
      const bool is_pair = item.is_array() && item.size() == 2 && item[0].is_string() &&
                           item[1].is_number_unsigned();
      if (is_pair) receipt.sizes[item[0].get<std::string>()] = item[1].get<uint64_t>();
    }
  }
  receipt.received_ns = integer_or(json, "received_ns", 0);
  receipt.answered_ns = integer_or(json, "answered_ns", 0);
  receipt.collector = string_or(json, "collector", "");
  receipt.findings_count = unsigned_or(json, "findings_count", 0);
  receipt.has_judged = bool_or(json, "has_judged", false);
  const auto findings = json.find("findings");
  if (findings == json.end() || !findings->is_array()) return receipt;
  for (const Json& item : *findings) {
    const auto finding = item.is_object() ? item.find("finding") : item.end();
    if (finding == item.end() || !finding->is_object()) continue;
    if (receipt.findings.size() >= kFindingsMax) break;
    receipt.findings.push_back({string_or(item, "key", ""), *finding});
  }
  return receipt;
}

}  // namespace paramedic::nodes
