#include "store/segment_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/crc32c.h"

namespace paramedic::store {

Result<SegmentReader> SegmentReader::open(const std::string& stem, const OnDamage& on_damage) {
  const std::string index_path = stem + std::string(kIndexEnding);
  const std::string data_path = stem + std::string(kDataEnding);
  // The index first: whatever it names was in the data file before.
  PARAMEDIC_ASSIGN(const std::string index, posix_file_system().read(index_path));
  PARAMEDIC_ASSIGN(MappedFile data, MappedFile::open(data_path));
  SegmentReader reader(std::move(data), data_path);
  const IndexHeaderCheck check = check_header(as_bytes(index));
  if (!check.problem.empty()) on_damage({index_path, 0, check.problem});
  if (check.entries_usable) {
    reader.read_entries(as_bytes(index).subspan(sizeof(IndexHeader)), index_path, on_damage);
  }
  return reader;
}

void SegmentReader::read_entries(Bytes index, const std::string& index_path,
                                 const OnDamage& on_damage) {
  const uint64_t data_bytes = data_.bytes().size();
  uint64_t end = 0;
  for (uint64_t at = 0; at + sizeof(IndexEntry) <= index.size(); at += sizeof(IndexEntry)) {
    const std::optional<IndexEntry> entry = decode_entry(index.subspan(at, sizeof(IndexEntry)));
    if (!entry) {
      on_damage({index_path, sizeof(IndexHeader) + at, "checksum mismatch in an index entry"});
      end = data_bytes;  // the damaged entry may speak of anything up to there
      continue;
    }
    if (entry->end() > data_bytes) {
      on_damage(
          {data_path_, entry->offset,
           fmt::format("a message of {} bytes is cut off by the end of the file", entry->bytes)});
      continue;
    }
    end = std::max(end, entry->end());
    if (entry->rows > 0) {
      batches_.push_back(*entry);
    } else if (Result<Bytes> schema = message(*entry); schema.ok()) {
      schema_ = *schema;
    } else {
      on_damage({data_path_, entry->offset, "checksum mismatch in the schema"});
    }
  }
  tail_bytes_ = data_bytes - end;
}

Result<Bytes> SegmentReader::message(const IndexEntry& entry) const {
  if (entry.end() > data_.bytes().size()) return corruption("the file ends before a batch does");
  const Bytes bytes = data_.bytes().subspan(entry.offset, entry.bytes);
  if (crc32c(bytes.data(), bytes.size()) != entry.message_crc) {
    return corruption(fmt::format("checksum mismatch in a batch of {} rows", entry.rows));
  }
  return bytes;
}

std::vector<std::string> list_segments(const std::string& folder,
                                       const SegmentReader::OnDamage& on_damage) {
  const Result<std::vector<std::string>> names = posix_file_system().list(folder);
  if (!names.ok()) {
    if (names.status().code() != StatusCode::kNotFound) {
      on_damage({folder, 0, names.status().message()});
    }
    return {};
  }
  std::set<SegmentName> segments;
  for (const std::string& name : *names) {
    if (const auto parsed = SegmentName::parse(name, kIndexEnding)) segments.insert(*parsed);
  }
  for (const std::string& name : *names) {
    const auto parsed = SegmentName::parse(name, kDataEnding);
    if (parsed && !segments.contains(*parsed)) {
      on_damage({folder + "/" + name, 0, "its index file is missing, so it is not read"});
    }
  }
  std::vector<std::string> stems;
  for (const SegmentName& segment : segments) stems.push_back(folder + "/" + segment.stem());
  return stems;
}

}  // namespace paramedic::store
