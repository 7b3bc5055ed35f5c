#include "store/segment_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "store/batch_codec.h"

namespace paramedic::store {
namespace {

// How many taken names in a row are passed over: another agent may write the same rank's table.
constexpr int kNamesTriedMax = 1000;

}  // namespace

Status SegmentWriter::append(const std::string& message, IndexEntry entry) {
  if (!data_) PARAMEDIC_TRY(start());
  if (Status status = write(message, entry); !status.ok()) {
    cut_back();
    return status;
  }
  if (data_bytes_ >= limits_.bytes_max) return seal();
  return {};
}

Status SegmentWriter::seal_if_old() {
  if (!data_ || clock_.monotonic_ns() - started_ns_ < limits_.age_ns_max) return {};
  return seal();
}

Status SegmentWriter::seal() {
  if (!data_) return {};
  Status status = data_->sync();
  if (status.ok()) status = index_->sync();
  if (Status closed = data_->close(); status.ok()) status = std::move(closed);
  if (Status closed = index_->close(); status.ok()) status = std::move(closed);
  finish();
  return status;
}

Status SegmentWriter::start() {
  for (int tried = 0;; tried++) {
    stem_ = folder_ + "/" + next_.stem();
    if (!files_.exists(index_path()) && !files_.exists(data_path())) break;
    if (tried == kNamesTriedMax) {
      return exhausted("store: no free segment name, last tried " + index_path());
    }
    next_.segment++;
  }
  Status status = write_beginning();
  if (status.ok()) {
    next_.segment++;
    return {};
  }
  // Nothing but our own beginning stands in them; what cannot be removed is an empty segment.
  data_.reset();
  index_.reset();
  (void)files_.remove(data_path());
  (void)files_.remove(index_path());
  return status;
}

Status SegmentWriter::write_beginning() {
  data_bytes_ = 0;
  index_bytes_ = 0;
  started_ns_ = clock_.monotonic_ns();
  // The index first: a data file without one would be taken for a damaged segment.
  PARAMEDIC_ASSIGN(index_, files_.create(index_path()));
  IndexHeader header;
  header.table = static_cast<uint32_t>(table_);
  header.rank = next_.rank;
  header.segment = next_.segment;
  const std::string header_bytes = encode(header);
  PARAMEDIC_TRY(index_->append(as_bytes(header_bytes)));
  index_bytes_ = header_bytes.size();
  PARAMEDIC_ASSIGN(data_, files_.create(data_path()));
  PARAMEDIC_ASSIGN(const std::string schema, encode_schema(table_columns(table_)));
  return write(schema, {});
}

Status SegmentWriter::write(const std::string& message, IndexEntry entry) {
  entry.offset = data_bytes_;
  entry.bytes = message.size();
  entry.message_crc = crc32c(message.data(), message.size());
  const std::string entry_bytes = encode(entry);
  PARAMEDIC_TRY(data_->append(as_bytes(message)));
  PARAMEDIC_TRY(index_->append(as_bytes(entry_bytes)));
  data_bytes_ += message.size();
  index_bytes_ += entry_bytes.size();
  return {};
}

void SegmentWriter::cut_back() {
  const Status index_cut = files_.truncate(index_path(), index_bytes_);
  const Status data_cut = files_.truncate(data_path(), data_bytes_);
  if (!index_cut.ok() || !data_cut.ok()) finish();
}

void SegmentWriter::finish() {
  finished_.push_back({stem_, open_bytes()});
  data_.reset();
  index_.reset();
}

Result<RecoveredSegment> recover_segment(FileSystem& files, const std::string& stem) {
  const std::string data_path = stem + std::string(kDataEnding);
  const std::string index_path = stem + std::string(kIndexEnding);
  RecoveredSegment recovered;
  PARAMEDIC_ASSIGN(const std::string index, files.read(index_path));
  uint64_t data_bytes = 0;
  if (files.exists(data_path)) {
    PARAMEDIC_ASSIGN(data_bytes, files.size(data_path));
  }
  if (!check_header(as_bytes(index)).entries_usable) {
    recovered.bytes = index.size() + data_bytes;
    return recovered;
  }
  uint64_t whole = (index.size() - sizeof(IndexHeader)) / sizeof(IndexEntry);
  // What the data must keep: the end of the last entry, unless that entry cannot be believed.
  uint64_t data_end = whole == 0 ? 0 : data_bytes;
  for (; whole > 0; whole--) {
    const Bytes last = as_bytes(index).subspan(
        sizeof(IndexHeader) + (whole - 1) * sizeof(IndexEntry), sizeof(IndexEntry));
    const std::optional<IndexEntry> entry = decode_entry(last);
    if (!entry) break;
    data_end = entry->end();
    if (data_end <= data_bytes) break;
    data_end = 0;
  }
  const uint64_t index_end = sizeof(IndexHeader) + whole * sizeof(IndexEntry);
  if (index_end < index.size()) PARAMEDIC_TRY(files.truncate(index_path, index_end));
  if (data_end < data_bytes) PARAMEDIC_TRY(files.truncate(data_path, data_end));
  if (index_end < index.size() || data_end < data_bytes) {
    recovered.cut =
        fmt::format("{}: torn tail cut, {} bytes of data and {} of the index", data_path,
                    data_bytes - std::min(data_end, data_bytes), index.size() - index_end);
  }
  for (uint64_t i = 0; i < whole; i++) {
    const auto entry = decode_entry(
        as_bytes(index).subspan(sizeof(IndexHeader) + i * sizeof(IndexEntry), sizeof(IndexEntry)));
    if (entry) recovered.entries.push_back(*entry);
  }
  recovered.bytes = index_end + std::min(data_end, data_bytes);
  return recovered;
}

}  // namespace paramedic::store
