#include "store/run_tail.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "store/batch_codec.h"
#include "store/file_range.h"
#include "store/row_cursor.h"
#include "store/segment_format.h"

namespace paramedic::store {
namespace {

constexpr std::array<TableId, 5> kFollowed = {TableId::kScalars, TableId::kEvents, TableId::kModel,
                                              TableId::kCollectives, TableId::kMetrics};
// Of one index file in one look; what is left comes with the next one.
constexpr uint64_t kIndexBytesMax = 1 << 20;
// No writer makes batches as large as this.
constexpr uint64_t kBatchBytesMax = 256ULL << 20;
// A slice ends after so much time or so many bytes of stored batches.
constexpr int64_t kSliceNs = 2'000'000'000;
constexpr uint64_t kSliceBytes = 8 << 20;
constexpr size_t kDamageMax = 1000;
// An entry that is wrong may be one that is just being written, seen over a network: only when it
// stays so it is damaged.
constexpr int kBadLooksMax = 20;
// For so long after a folder has changed it is listed again and again: its time may be no finer
// than a few milliseconds, and a file made right after a look leave it as it was.
constexpr int64_t kSettlesNs = 3'000'000'000;
// Of one table: this program writes one, other versions may write others.
constexpr size_t kSchemasMax = 16;

struct Segment {
  std::string stem;  // path without ending
  uint64_t index_read = 0;
  bool is_readable = true;
  bool is_complete = false;  // sealed, and read to its end
  int bad_looks = 0;         // in a row, at the entry that comes next
  std::string schema;        // its message; empty when it is damaged
};

// A table's folder, which is listed only when it has changed: a collector follows thousands.
struct Folder {
  std::vector<SegmentName> listed;  // segments of a rank one after another
  int64_t changed_ns = 0;           // the folder's own time
  int64_t noticed_ns = 0;           // when that was seen

  void look(const std::string& path);
};

void Folder::look(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return;  // none yet, or a file system that is away
  const int64_t now_ns = real_clock().monotonic_ns();
  const int64_t changed = modified_ns(facts);
  if (std::exchange(changed_ns, changed) != changed) noticed_ns = now_ns;
  if (now_ns - noticed_ns > kSettlesNs) return;
  const auto names = posix_file_system().list(path);
  if (!names.ok()) return;
  listed.clear();
  for (const std::string& name : *names) {
    if (const auto segment = SegmentName::parse(name, kIndexEnding)) listed.push_back(*segment);
  }
}

struct Found {
  TableId table;
  const Segment* segment;
  IndexEntry entry;
};

// The groups that events tell of are known to the rows that follow.
class GroupTeller : public RowSink {
 public:
  GroupTeller(RowSink& sink, Interner& interner) : sink_(sink), interner_(interner) {}
  void on_stats(const StatsRow& row) override { sink_.on_stats(row); }
  void on_histogram(const HistogramRow& row) override { sink_.on_histogram(row); }
  void on_scalar(const ScalarRow& row) override { sink_.on_scalar(row); }
  void on_event(const EventRow& row) override {
    if (row.kind == kGroupEvent) interner_.tell_group(row.json);
    sink_.on_event(row);
  }
  void on_model(const ModelRow& row) override { sink_.on_model(row); }
  void on_tensor_piece(const TensorPieceRow& row) override { sink_.on_tensor_piece(row); }
  void on_collective(const CollectiveRow& row) override { sink_.on_collective(row); }
  void on_metric(const MetricRow& row) override { sink_.on_metric(row); }

 private:
  RowSink& sink_;
  Interner& interner_;
};

}  // namespace

struct RunTail::Impl {
  // The batches of one table in a slice.
  struct Batches {
    std::optional<ParsedBatch> next();

    Impl& tail;
    std::vector<const Found*> places;
    size_t at = 0;
    std::string bytes = {};
  };

  Impl(std::string run_dir, MembersBook& book) : dir(std::move(run_dir)), members(book) {}

  Interner& interner(uint64_t ring_id) {
    return interners.try_emplace(ring_id, members).first->second;
  }

  void look_at(TableId table);
  void look_at(TableId table, Segment& segment);
  Status take_header(Segment& segment);
  void take_entry(TableId table, Segment& segment, const IndexEntry& entry);
  [[nodiscard]] size_t slice_end() const;
  bool read(RowSink& sink);
  void read_ring(uint64_t ring_id, const std::vector<const Found*>& slice, RowSink& sink);
  void read_metrics(std::vector<const Found*> slice, RowSink& sink);
  Result<ParsedBatch> parse(const Found& place, std::string& bytes);
  Result<BatchParser*> parser_of(const Found& place);
  template <typename Row>
  void add_cursor(const std::vector<const Found*>& slice, Interner& interner,
                  std::vector<std::unique_ptr<Cursor>>& cursors);
  void add_damage(std::string file, uint64_t offset, std::string what) {
    if (damage.size() < kDamageMax) damage.push_back({std::move(file), offset, std::move(what)});
  }

  std::string dir;
  std::map<TableId, Folder> folders;
  std::map<std::pair<TableId, SegmentName>, Segment> segments;  // a node never moves
  std::map<std::pair<TableId, std::string>, BatchParser> parsers;
  MembersBook& members;
  std::map<uint64_t, Interner> interners;
  std::vector<Found> found;  // by time; those from `passed_on` on are still to come
  size_t passed_on = 0;
  std::vector<Damage> damage;
};

std::optional<ParsedBatch> RunTail::Impl::Batches::next() {
  while (at < places.size()) {
    const Found& place = *places[at++];
    Result<ParsedBatch> batch = tail.parse(place, bytes);
    if (batch.ok()) return std::move(batch).value();
    tail.add_damage(place.segment->stem + std::string(kDataEnding), place.entry.offset,
                    batch.status().message());
  }
  return std::nullopt;
}

void RunTail::Impl::look_at(TableId table) {
  const std::string folder = dir + "/" + table_name(table);
  folders[table].look(folder);
  const std::vector<SegmentName>& listed = folders[table].listed;
  for (size_t i = 0; i < listed.size(); i++) {
    Segment& segment = segments[{table, listed[i]}];
    if (segment.stem.empty()) segment.stem = folder + "/" + listed[i].stem();
    if (!segment.is_readable || segment.is_complete) continue;
    // Asked before the look: whoever began the next segment has ended this one.
    const bool is_sealed = i + 1 < listed.size() && listed[i + 1].rank == listed[i].rank;
    const uint64_t before = segment.index_read;
    look_at(table, segment);
    segment.is_complete =
        is_sealed && before > 0 && segment.index_read == before && segment.bad_looks == 0;
  }
}

void RunTail::Impl::look_at(TableId table, Segment& segment) {
  const std::string path = segment.stem + std::string(kIndexEnding);
  if (segment.index_read == 0) {
    if (!take_header(segment).ok() || segment.index_read == 0) return;
  }
  const auto size = posix_file_system().size(path);
  if (!size.ok() || *size < segment.index_read + sizeof(IndexEntry)) return;
  const auto bytes = read_range(path, segment.index_read, kIndexBytesMax);
  if (!bytes.ok()) return;
  for (uint64_t at = 0; at + sizeof(IndexEntry) <= bytes->size(); at += sizeof(IndexEntry)) {
    const auto entry = decode_entry(as_bytes(*bytes).subspan(at, sizeof(IndexEntry)));
    if (!entry && ++segment.bad_looks < kBadLooksMax) return;
    segment.bad_looks = 0;
    segment.index_read += sizeof(IndexEntry);
    if (entry) {
      take_entry(table, segment, *entry);
    } else {
      add_damage(path, segment.index_read - sizeof(IndexEntry),
                 "checksum mismatch in an index entry");
    }
  }
}

Status RunTail::Impl::take_header(Segment& segment) {
  const std::string path = segment.stem + std::string(kIndexEnding);
  PARAMEDIC_ASSIGN(const std::string header, read_range(path, 0, sizeof(IndexHeader)));
  if (header.size() < sizeof(IndexHeader)) return {};
  const IndexHeaderCheck check = check_header(as_bytes(header));
  if (!check.problem.empty()) add_damage(path, 0, check.problem);
  segment.is_readable = check.entries_usable;
  if (segment.is_readable) segment.index_read = sizeof(IndexHeader);
  return {};
}

void RunTail::Impl::take_entry(TableId table, Segment& segment, const IndexEntry& entry) {
  if (entry.bytes > kBatchBytesMax) {
    return add_damage(segment.stem + std::string(kDataEnding), entry.offset,
                      fmt::format("a message of {} bytes", entry.bytes));
  }
  if (entry.rows > 0) {
    found.push_back({table, &segment, entry});
    return;
  }
  auto schema = read_range(segment.stem + std::string(kDataEnding), entry.offset, entry.bytes);
  if (schema.ok() && crc32c(schema->data(), schema->size()) == entry.message_crc) {
    segment.schema = std::move(schema).value();
  }
}

Result<BatchParser*> RunTail::Impl::parser_of(const Found& place) {
  const std::pair key(place.table, place.segment->schema);
  if (const auto known = parsers.find(key); known != parsers.end()) return &known->second;
  if (parsers.size() >= kFollowed.size() * kSchemasMax) {
    return exhausted("its schema is one too many");
  }
  PARAMEDIC_ASSIGN(BatchParser parser,
                   BatchParser::create(table_columns(place.table), as_bytes(key.second)));
  return &parsers.emplace(key, std::move(parser)).first->second;
}

Result<ParsedBatch> RunTail::Impl::parse(const Found& place, std::string& bytes) {
  const IndexEntry& entry = place.entry;
  PARAMEDIC_ASSIGN(
      bytes, read_range(place.segment->stem + std::string(kDataEnding), entry.offset, entry.bytes));
  if (bytes.size() < entry.bytes) return corruption("the file ends before a batch does");
  if (crc32c(bytes.data(), bytes.size()) != entry.message_crc) {
    return corruption(fmt::format("checksum mismatch in a batch of {} rows", entry.rows));
  }
  PARAMEDIC_ASSIGN(BatchParser * parser, parser_of(place));
  PARAMEDIC_ASSIGN(ParsedBatch batch, parser->parse(as_bytes(bytes)));
  if (batch.rows != entry.rows) {
    return corruption(
        fmt::format("a batch of {} rows where the index says {}", batch.rows, entry.rows));
  }
  return batch;
}

size_t RunTail::Impl::slice_end() const {
  const int64_t until_ns = found[passed_on].entry.first_time_ns + kSliceNs;
  uint64_t bytes = 0;
  size_t end = passed_on;
  while (end < found.size() && found[end].entry.first_time_ns <= until_ns && bytes < kSliceBytes) {
    bytes += found[end++].entry.bytes;
  }
  return end;
}

bool RunTail::Impl::read(RowSink& sink) {
  if (passed_on == found.size()) return false;
  const size_t end = slice_end();
  std::map<uint64_t, std::vector<const Found*>> by_ring;
  std::vector<const Found*> metrics;
  for (size_t i = passed_on; i < end; i++) {
    if (found[i].table == TableId::kMetrics) {
      metrics.push_back(&found[i]);
    } else {
      by_ring[found[i].entry.ring_id].push_back(&found[i]);
    }
  }
  for (const auto& [ring_id, places] : by_ring) read_ring(ring_id, places, sink);
  read_metrics(std::move(metrics), sink);
  passed_on = end;
  return true;
}

template <typename Row>
void RunTail::Impl::add_cursor(const std::vector<const Found*>& slice, Interner& interner,
                               std::vector<std::unique_ptr<Cursor>>& cursors) {
  Batches batches{*this, {}};
  for (const Found* place : slice) {
    if (place->table == Table<Row>::kId) batches.places.push_back(place);
  }
  if (batches.places.empty()) return;
  cursors.push_back(std::make_unique<TableCursor<Row, Batches>>(std::move(batches), interner));
}

void RunTail::Impl::read_ring(uint64_t ring_id, const std::vector<const Found*>& slice,
                              RowSink& sink) {
  Interner& interner = this->interner(ring_id);
  std::vector<std::unique_ptr<Cursor>> cursors;
  add_cursor<ScalarRow>(slice, interner, cursors);
  add_cursor<EventRow>(slice, interner, cursors);
  add_cursor<ModelRow>(slice, interner, cursors);
  add_cursor<CollectiveRow>(slice, interner, cursors);
  GroupTeller teller(sink, interner);
  merge(cursors, teller);
}

void RunTail::Impl::read_metrics(std::vector<const Found*> slice, RowSink& sink) {
  Batches batches{*this, std::move(slice)};
  MetricRow row;
  while (const auto batch = batches.next()) {
    for (size_t i = 0; i < batch->rows; i++) {
      RowLoader loader(*batch, i, interner(0));
      Table<MetricRow>::visit(row, loader);
      sink.on_metric(row);
    }
  }
}

RunTail::RunTail(std::string dir, MembersBook& members)
    : impl_(std::make_unique<Impl>(std::move(dir), members)) {}
RunTail::~RunTail() = default;

void RunTail::look() {
  auto& found = impl_->found;
  found.erase(found.begin(), found.begin() + static_cast<ptrdiff_t>(impl_->passed_on));
  impl_->passed_on = 0;
  for (const TableId table : kFollowed) impl_->look_at(table);
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.entry.first_time_ns < b.entry.first_time_ns;
  });
}

bool RunTail::read(RowSink& sink) { return impl_->read(sink); }

const std::vector<Damage>& RunTail::damage() const { return impl_->damage; }

}  // namespace paramedic::store
