#pragma once
// One segment for reading, mapped: its index, and its messages with their checksums verified.
// Works while a writer appends: it sees what was there when it was opened. Nothing in the bytes is
// trusted. Not thread-safe; messages are valid as long as the reader.

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "store/run.h"
#include "store/segment_format.h"

namespace paramedic::store {

class SegmentReader {
 public:
  using OnDamage = std::function<void(Damage)>;

  // `stem` is the path without ending. Damage of the index is told and what remains of it used; an
  // error only where the files cannot be read at all.
  static Result<SegmentReader> open(const std::string& stem, const OnDamage& on_damage);

  // The batches, in the order of storing; their bytes lie inside the data.
  [[nodiscard]] const std::vector<IndexEntry>& batches() const { return batches_; }
  // Of the schema; empty when it is damaged.
  [[nodiscard]] Bytes schema() const { return schema_; }
  [[nodiscard]] const std::string& data_path() const { return data_path_; }
  // Bytes of data that no entry speaks of: a torn tail, or what a writer is just appending.
  [[nodiscard]] uint64_t tail_bytes() const { return tail_bytes_; }
  // Where the tail begins.
  [[nodiscard]] uint64_t tail_offset() const { return data_.bytes().size() - tail_bytes_; }

  // The message of an entry, or kCorruption when it is cut off or its checksum does not hold.
  [[nodiscard]] Result<Bytes> message(const IndexEntry& entry) const;

 private:
  SegmentReader(MappedFile data, std::string data_path)
      : data_(std::move(data)), data_path_(std::move(data_path)) {}
  void read_entries(Bytes index, const std::string& index_path, const OnDamage& on_damage);

  MappedFile data_;
  std::string data_path_;
  std::vector<IndexEntry> batches_;
  Bytes schema_;
  uint64_t tail_bytes_ = 0;
};

// Stems (paths) of the segments in a table's folder, by rank and number. A data file without an
// index is told as damage. None when there is no folder.
std::vector<std::string> list_segments(const std::string& folder,
                                       const SegmentReader::OnDamage& on_damage);

}  // namespace paramedic::store
