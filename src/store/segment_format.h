#pragma once
// The bytes of a segment's index file (TABLE/rank-N-SEQ.idx) and the names of segments;
// docs/formats/run-folder.md tells the same with an example. Plain values.
//
//   | IndexHeader, 32 bytes | IndexEntry, 80 bytes | IndexEntry | …
//
// The index says of each Arrow message in the .arrows file beside it where it stands and what its
// checksum is. A message is appended first, then its entry: bytes without an entry are a torn
// tail. All numbers are little-endian.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace paramedic::store {

constexpr uint64_t kIndexMagic = 0x3158444e49444d50;  // "PMDINDX1"
constexpr uint32_t kIndexVersion = 1;

struct IndexHeader {
  uint64_t magic = kIndexMagic;
  uint32_t version = kIndexVersion;
  uint32_t entry_bytes = 80;
  uint32_t table = 0;  // TableId
  int32_t rank = 0;
  uint32_t segment = 0;  // SEQ of the file's name
  uint32_t crc = 0;      // CRC-32C of the 28 bytes before
};
static_assert(sizeof(IndexHeader) == 32);

struct IndexEntry {
  uint64_t offset = 0;   // in the .arrows file
  uint64_t bytes = 0;    // of the whole message: prefix, metadata, body
  uint64_t ring_id = 0;  // all rows of a batch come from one ring; 0: not from a ring
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;
  int64_t first_time_ns = 0;
  int64_t min_step = 0;
  int64_t max_step = 0;
  uint32_t rows = 0;         // 0: the schema message
  uint32_t message_crc = 0;  // CRC-32C of the message's bytes
  uint32_t reserved = 0;
  uint32_t crc = 0;  // CRC-32C of the 76 bytes before

  [[nodiscard]] uint64_t end() const { return offset + bytes; }
};
static_assert(sizeof(IndexEntry) == 80);

// Fill in the crc and give the bytes.
std::string encode(IndexHeader header);
std::string encode(IndexEntry entry);

// Whether the bytes are an entry whose own checksum holds and whose numbers can be added without
// overflow; `bytes` has at least sizeof(IndexEntry).
std::optional<IndexEntry> decode_entry(Bytes bytes);

struct IndexHeaderCheck {
  IndexHeader header;
  std::string problem;          // "" when it is good
  bool entries_usable = false;  // each entry has a checksum of its own: only a newer version stops
};
IndexHeaderCheck check_header(Bytes bytes);

struct SegmentName {
  int32_t rank = 0;
  uint32_t segment = 0;

  // "rank-0-000001", the name without its ending.
  [[nodiscard]] std::string stem() const;
  // Of "rank-0-000001.idx" or ".arrows"; nothing for other names.
  static std::optional<SegmentName> parse(std::string_view name, std::string_view ending);
  auto operator<=>(const SegmentName&) const = default;
};
constexpr std::string_view kDataEnding = ".arrows";
constexpr std::string_view kIndexEnding = ".idx";

}  // namespace paramedic::store
