// A ring file may hold anything: nothing in it may crash the reader or be passed on wrongly.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include "base/crc32c.h"
#include "base/file.h"
#include "record/test_ring.h"

namespace paramedic::record {
namespace {

class HostileRing : public RingTest {
 protected:
  HostileRing() {
    auto writer = make_writer();
    define_tensor(*writer);
    // Beyond one round, so that the file has padding and places that were overwritten.
    auto reader = make_reader(*writer);
    for (int64_t step = 0; step < kRecords; step++) {
      if (step == kRecords - 30) {
        read_steps(*reader);
        reader->acknowledge();
      }
      EXPECT_TRUE(append_numbered(*writer, step, 500 + static_cast<uint32_t>(step) * 3));
      if (step % 20 == 19 && step < kRecords - 30) {
        read_steps(*reader);
        reader->acknowledge();
      }
    }
    reader.reset();
    original_ = posix_file_system().read(writer->path()).value();
  }

  // A reader of `bytes`, from memory.
  static Result<std::unique_ptr<RingReader>> reader_of(const std::string& bytes) {
    const int fd = ::memfd_create("hostile", MFD_CLOEXEC);
    EXPECT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return RingReader::adopt(fd, "hostile.ring");
  }
  static void set_header(std::string* bytes, const std::function<void(RingHeader*)>& change) {
    auto* header = reinterpret_cast<RingHeader*>(bytes->data());
    change(header);
    header->header_crc = crc32c(header, offsetof(RingHeader, header_crc));
  }

  static constexpr int64_t kRecords = 100;
  std::string original_;
};

TEST_F(HostileRing, the_unchanged_file_is_read_whole) {
  auto reader = reader_of(original_).value();
  EXPECT_EQ(read_steps(*reader).size(), 30u);
}

TEST_F(HostileRing, random_changes_never_crash_and_never_make_a_wrong_record) {
  std::mt19937 random(3);
  uint64_t records = 0;
  for (int round = 0; round < 2000; round++) {
    std::string bytes = original_;
    const uint32_t changes = 1 + random() % 4;
    for (uint32_t i = 0; i < changes; i++) {
      // Half of the changes hit the header's fields and the directory.
      const size_t at = random() % 2 == 0 ? random() % 128 : random() % bytes.size();
      bytes[at] = static_cast<char>(random());
    }
    if (random() % 2 == 0) set_header(&bytes, [](RingHeader*) {});
    auto reader = reader_of(bytes);
    if (!reader.ok()) continue;
    // Twice: after damage the reader goes on.
    for (int i = 0; i < 2; i++) {
      const auto read = reader.value()->read([&](const Record& record) {
        EXPECT_TRUE(is_numbered(record));
        EXPECT_EQ(record.sequence, static_cast<uint64_t>(record.step));
        EXPECT_EQ(record.piece.size(), 500u + static_cast<uint64_t>(record.step) * 3);
        records++;
      });
      if (!read.ok()) {
        EXPECT_EQ(read.status().code(), StatusCode::kCorruption);
        EXPECT_NE(read.status().message().find("hostile.ring"), std::string::npos);
      }
      reader.value()->acknowledge();
    }
  }
  EXPECT_GT(records, 1000u);
}

TEST_F(HostileRing, damage_is_named_skipped_and_does_not_stop_later_records) {
  // GIVEN a ring whose first record to read is damaged
  auto writer = make_writer();
  define_tensor(*writer);
  append_numbered(*writer, 0, 8);
  append_numbered(*writer, 1, 8);
  append_numbered(*writer, 2, 8);
  const int fd = ::open(writer->path().c_str(), O_RDWR);
  ASSERT_EQ(::pwrite(fd, "?", 1, kHeaderBytes + 4096 + 80 + 50), 1);
  ::close(fd);
  // WHEN it is read
  auto reader = make_reader(*writer);
  std::vector<int64_t> steps;
  const auto collect = [&](const Record& record) { steps.push_back(record.step); };
  const auto read = reader->read(collect);
  // THEN what came before is there, the damage is named, and reading goes on behind it
  EXPECT_EQ(steps, std::vector<int64_t>{0});
  EXPECT_EQ(read.status().code(), StatusCode::kCorruption);
  EXPECT_NE(read.status().message().find("position 80"), std::string::npos)
      << read.status().message();
  EXPECT_EQ(reader->skipped_bytes(), 160u);
  append_numbered(*writer, 3, 8);
  EXPECT_EQ(reader->read(collect).value(), 1u);
  EXPECT_EQ(steps.back(), 3);
}

TEST_F(HostileRing, files_cut_anywhere_are_refused) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{kHeaderBytes},
                       original_.size() / 2, original_.size() - 1}) {
    EXPECT_EQ(reader_of(original_.substr(0, bytes)).status().code(), StatusCode::kCorruption);
  }
}

TEST_F(HostileRing, a_file_that_is_cut_while_it_is_open_is_damage_and_no_crash) {
  const std::string path = folder_ + "/cut.ring";
  ASSERT_TRUE(posix_file_system().write_atomically(path, as_bytes(original_)).ok());
  auto reader = RingReader::open(path).value();
  ASSERT_TRUE(posix_file_system().truncate(path, kHeaderBytes).ok());
  EXPECT_EQ(reader->read([](const Record&) {}).status().code(), StatusCode::kCorruption);
}

TEST_F(HostileRing, a_newer_version_is_unsupported) {
  std::string bytes = original_;
  set_header(&bytes, [](RingHeader* header) { header->version = kRingVersion + 1; });
  const Status status = reader_of(bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_FALSE(status.hint().empty());
}

TEST_F(HostileRing, numbers_out_of_range_are_refused_even_with_a_right_checksum) {
  const std::vector<std::function<void(RingHeader*)>> changes = {
      [](RingHeader* h) { h->magic++; },
      [](RingHeader* h) { h->version = 0; },
      [](RingHeader* h) { h->header_bytes = 8; },
      [](RingHeader* h) { h->ring_bytes = 0; },
      [](RingHeader* h) { h->ring_bytes = kRingBytesMin + 8; },
      [](RingHeader* h) { h->ring_bytes = kRingBytesMin * 2; },
      [](RingHeader* h) { h->directory_bytes = 0xfffffff8; },
      [](RingHeader* h) { h->rank = -1; },
      [](RingHeader* h) { h->world_size = 0; },
      [](RingHeader* h) { h->head = h->tail - 8; },
      [](RingHeader* h) { h->head = h->tail + 2 * kRingBytesMin; },
      [](RingHeader* h) { h->head = h->head + 1; },
      [](RingHeader* h) { h->tail = 3; },
  };
  for (size_t i = 0; i < changes.size(); i++) {
    std::string bytes = original_;
    set_header(&bytes, changes[i]);
    EXPECT_EQ(reader_of(bytes).status().code(), StatusCode::kCorruption) << i;
  }
}

TEST_F(HostileRing, records_that_contradict_themselves_are_refused_even_with_a_right_checksum) {
  StatsItem more_nan_than_elements{};
  more_nan_than_elements.stats.count = 1;
  more_nan_than_elements.stats.nan = 2;
  StatsItem more_dead_than_units{};
  more_dead_than_units.units_dead = 1;
  StatsItem unknown_id{};
  unknown_id.id = 1;
  for (const StatsItem& item : {more_nan_than_elements, more_dead_than_units, unknown_id}) {
    auto writer = make_writer();
    define_tensor(*writer);
    const std::array<Bytes, 1> parts = {std::as_bytes(std::span(&item, 1))};
    ASSERT_TRUE(writer->append({RecordType::kStats, Mode::kTrain, 0, 1}, parts));
    auto reader = make_reader(*writer);
    bool passed_on = false;
    const auto read = reader->read([&](const Record&) { passed_on = true; });
    EXPECT_EQ(read.status().code(), StatusCode::kCorruption);
    EXPECT_FALSE(passed_on);
  }
}

TEST_F(HostileRing, collectives_that_cannot_be_are_refused_even_with_a_right_checksum) {
  const std::array<int64_t, 9> sizes = {-1};
  struct Case {
    const char* name;
    CollectiveItem item;
    uint32_t sizes;
  };
  CollectiveItem good{};
  good.where = kNoDefinition;
  const auto with = [&](const std::function<void(CollectiveItem*)>& change) {
    CollectiveItem item = good;
    change(&item);
    return item;
  };
  const std::vector<Case> cases = {
      {"group", with([](CollectiveItem* item) { item->group = 1; }), 0},
      {"operation", with([](CollectiveItem* item) { item->operation = 1; }), 0},
      {"where", with([](CollectiveItem* item) { item->where = 1; }), 0},
      {"number", with([](CollectiveItem* item) { item->number = -1; }), 0},
      {"peer", with([](CollectiveItem* item) { item->peer = -2; }), 0},
      {"dtype", with([](CollectiveItem* item) { item->dtype = stats::kDTypeCount; }), 0},
      {"asynchronous", with([](CollectiveItem* item) { item->asynchronous = 2; }), 0},
      {"a negative size", good, 1},
      {"too many sizes", good, 9},
  };
  for (const Case& one : cases) {
    auto writer = make_writer();
    define_tensor(*writer);
    const std::array<Bytes, 2> parts = {
        std::as_bytes(std::span(&one.item, 1)),
        std::as_bytes(std::span(sizes)).first(one.sizes * sizeof(int64_t))};
    ASSERT_TRUE(
        writer->append({RecordType::kCollectiveEntered, Mode::kTrain, 0, one.sizes}, parts));
    auto reader = make_reader(*writer);
    const auto read = reader->read([&](const Record&) { ADD_FAILURE() << one.name; });
    EXPECT_EQ(read.status().code(), StatusCode::kCorruption) << one.name;
  }
  for (const CollectiveLeftItem& item :
       {CollectiveLeftItem{1, 0, 0}, CollectiveLeftItem{0, 0, -1}}) {
    auto writer = make_writer();
    define_tensor(*writer);
    const std::array<Bytes, 1> parts = {std::as_bytes(std::span(&item, 1))};
    ASSERT_TRUE(writer->append({RecordType::kCollectiveLeft, Mode::kTrain, 0, 1}, parts));
    auto reader = make_reader(*writer);
    const auto read = reader->read([&](const Record&) { ADD_FAILURE(); });
    EXPECT_EQ(read.status().code(), StatusCode::kCorruption);
  }
}

TEST_F(HostileRing, what_is_no_regular_file_is_refused_without_waiting) {
  EXPECT_FALSE(RingReader::open("/dev/zero").ok());
  EXPECT_FALSE(RingReader::open(folder_).ok());
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(RingReader::open(fifo).status().code(), StatusCode::kCorruption);
  std::filesystem::create_symlink("/etc/passwd", folder_ + "/link");
  EXPECT_FALSE(RingReader::open(folder_ + "/link").ok());
}

}  // namespace
}  // namespace paramedic::record
