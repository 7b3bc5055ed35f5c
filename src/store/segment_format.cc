#include "store/segment_format.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "base/crc32c.h"

namespace paramedic::store {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is written as memory is");

template <typename T>
std::string with_crc(T value) {
  value.crc = crc32c(&value, offsetof(T, crc));
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && !text.empty();
}

}  // namespace

std::string encode(IndexHeader header) { return with_crc(header); }
std::string encode(IndexEntry entry) { return with_crc(entry); }

std::optional<IndexEntry> decode_entry(Bytes bytes) {
  IndexEntry entry;
  std::memcpy(&entry, bytes.data(), sizeof entry);
  if (entry.crc != crc32c(&entry, offsetof(IndexEntry, crc))) return std::nullopt;
  if (entry.offset > INT64_MAX || entry.bytes > INT64_MAX) return std::nullopt;
  return entry;
}

IndexHeaderCheck check_header(Bytes bytes) {
  IndexHeaderCheck check;
  if (bytes.size() < sizeof(IndexHeader)) {
    check.problem = fmt::format("the index has {} bytes, its header alone is {}", bytes.size(),
                                sizeof(IndexHeader));
    return check;
  }
  std::memcpy(&check.header, bytes.data(), sizeof check.header);
  const IndexHeader& header = check.header;
  check.entries_usable = true;
  if (header.crc != crc32c(&header, offsetof(IndexHeader, crc))) {
    check.problem = "checksum mismatch in the header of the index";
  } else if (header.magic != kIndexMagic) {
    check.problem = "this is no segment index";
    check.entries_usable = false;
  } else if (header.version != kIndexVersion || header.entry_bytes != sizeof(IndexEntry)) {
    check.problem = fmt::format("index of version {}, this program reads version {}",
                                header.version, kIndexVersion);
    check.entries_usable = false;
  }
  return check;
}

std::string SegmentName::stem() const { return fmt::format("rank-{}-{:06}", rank, segment); }

std::optional<SegmentName> SegmentName::parse(std::string_view name, std::string_view ending) {
  constexpr std::string_view kPrefix = "rank-";
  if (!name.starts_with(kPrefix) || !name.ends_with(ending)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(ending.size());
  const size_t dash = name.rfind('-');
  SegmentName parsed;
  if (dash == std::string_view::npos || !parse_number(name.substr(0, dash), parsed.rank) ||
      !parse_number(name.substr(dash + 1), parsed.segment)) {
    return std::nullopt;
  }
  return parsed;
}

}  // namespace paramedic::store
