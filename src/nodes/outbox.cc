#include "nodes/outbox.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/file.h"
#include "store/file_range.h"
#include "store/segment_format.h"

namespace paramedic::nodes {
namespace {

// What is compared between ranks, and what is to be shown of all of them. Statistics, histograms,
// tensors and logs stay with the node.
constexpr std::array<const char*, 7> kTables = {"events",  "model",    "scalars", "collectives",
                                                "metrics", "findings", "repairs"};
// Of one index file at a time.
constexpr uint64_t kIndexBytesMax = 64 << 10;

std::string index_of(const std::string& stem) { return stem + std::string(store::kIndexEnding); }
std::string data_of(const std::string& stem) { return stem + std::string(store::kDataEnding); }

void add(std::string file, uint64_t offset, std::string bytes, Outbox::Load& load) {
  load.bytes += bytes.size();
  load.pieces.push_back({std::move(file), offset, std::move(bytes)});
}

// Where the data ends that these entries speak of; 0 when none can be read.
uint64_t data_end_of(std::string_view entries) {
  uint64_t end = 0;
  for (size_t at = 0; at + sizeof(store::IndexEntry) <= entries.size();
       at += sizeof(store::IndexEntry)) {
    const auto entry = store::decode_entry(as_bytes(entries.substr(at, sizeof(store::IndexEntry))));
    if (entry) end = std::max(end, entry->end());
  }
  return end;
}

}  // namespace

void Outbox::know(const std::map<std::string, uint64_t>& sizes) {
  segments_.clear();
  for (const auto& [file, size] : sizes) {
    if (!is_segment_file(file)) continue;
    const size_t dot = file.rfind('.');
    Segment& segment = segments_[file.substr(0, dot)];
    (file.ends_with(store::kIndexEnding) ? segment.index_sent : segment.data_sent) = size;
  }
}

Outbox::Load Outbox::next(uint64_t bytes_max) {
  Load load;
  for (const char* table : kTables) {
    const auto names = posix_file_system().list(run_dir_ + "/" + table);
    if (!names.ok()) continue;
    std::vector<store::SegmentName> listed;  // segments of a rank one after another
    for (const std::string& name : *names) {
      const auto segment = store::SegmentName::parse(name, store::kIndexEnding);
      if (segment) listed.push_back(*segment);
    }
    for (size_t i = 0; i < listed.size(); i++) {
      const bool is_sealed = i + 1 < listed.size() && listed[i + 1].rank == listed[i].rank;
      const std::string stem = std::string(table) + "/" + listed[i].stem();
      if (segments_[stem].is_complete) continue;
      if (load.bytes >= bytes_max || load.pieces.size() + 2 > kPiecesMax) {
        load.is_all = false;
        return load;
      }
      add_segment(stem, is_sealed, bytes_max, load);
    }
  }
  return load;
}

void Outbox::add_segment(const std::string& stem, bool is_sealed, uint64_t bytes_max, Load& load) {
  Segment& segment = segments_[stem];
  const std::string path = run_dir_ + "/" + stem;
  const auto size = posix_file_system().size(index_of(path));
  if (!size.ok()) return;
  if (*size <= segment.index_sent) {
    segment.is_complete = is_sealed;
    return;
  }
  auto index = store::read_range(index_of(path), segment.index_sent, kIndexBytesMax);
  if (!index.ok()) return;
  load.is_all = load.is_all && segment.index_sent + index->size() >= *size;
  const size_t header = segment.index_sent == 0 ? sizeof(store::IndexHeader) : 0;
  if (index->size() < header) return;
  index->resize(index->size() - (index->size() - header) % sizeof(store::IndexEntry));
  if (index->empty()) return;
  const uint64_t end = data_end_of(std::string_view(*index).substr(header));
  if (end > segment.data_sent) {
    const uint64_t room = bytes_max - std::min(bytes_max, load.bytes);
    const uint64_t wanted = end - segment.data_sent;
    auto data = store::read_range(data_of(path), segment.data_sent, std::min(wanted, room));
    if (!data.ok()) return;
    const bool is_whole = data->size() == wanted;
    if (!data->empty()) add(data_of(stem), segment.data_sent, std::move(data).value(), load);
    if (!is_whole) {
      load.is_all = false;
      return;
    }
  }
  add(index_of(stem), segment.index_sent, std::move(index).value(), load);
}

void Outbox::delivered(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    Segment& segment = segments_[piece.file.substr(0, piece.file.rfind('.'))];
    const uint64_t end = piece.offset + piece.bytes.size();
    uint64_t& sent =
        piece.file.ends_with(store::kIndexEnding) ? segment.index_sent : segment.data_sent;
    sent = std::max(sent, end);
  }
}

}  // namespace paramedic::nodes
