#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "record/test_ring.h"

namespace paramedic::record {
namespace {

constexpr uint32_t kFixedBytes = sizeof(RecordHeader) + sizeof(TensorItem);  // 72

std::vector<int64_t> range(int64_t from, int64_t to) {
  std::vector<int64_t> steps(static_cast<size_t>(to - from));
  std::iota(steps.begin(), steps.end(), from);
  return steps;
}

TEST_F(RingTest, every_type_of_record_is_read_back_as_written) {
  // GIVEN a ring with one record of each type
  auto writer = make_writer();
  const uint32_t id = define_tensor(*writer);
  StatsItem stats{};
  stats.id = id;
  stats.stats = {.count = 6, .nan = 1, .zero = 2, .min = -1, .max = 4, .sum = 5};
  stats.units = 3;
  stats.units_dead = 1;
  const std::array<StatsItem, 2> two_stats = {stats, stats};
  const std::array<Bytes, 1> stats_parts = {std::as_bytes(std::span(two_stats))};
  ASSERT_TRUE(writer->append({RecordType::kStats, Mode::kEval, 7, 2}, stats_parts));
  const ScalarItem scalar{id, 0, 2.5};
  const std::array<Bytes, 1> scalar_parts = {std::as_bytes(std::span(&scalar, 1))};
  ASSERT_TRUE(writer->append({RecordType::kScalars, Mode::kTrain, -5, 1}, scalar_parts));
  const EventItem event{8, 2};
  const std::array<Bytes, 2> event_parts = {std::as_bytes(std::span(&event, 1)),
                                            as_bytes("attached{}")};
  ASSERT_TRUE(writer->append({RecordType::kEvent, Mode::kGlobal, 0, 1}, event_parts));
  const HistogramItem histogram{id, 0};
  const HistogramBin bin{511, 0, 9};
  const std::array<Bytes, 2> histogram_parts = {std::as_bytes(std::span(&histogram, 1)),
                                                std::as_bytes(std::span(&bin, 1))};
  ASSERT_TRUE(writer->append({RecordType::kHistogram, Mode::kPredict, 1, 1}, histogram_parts));
  ASSERT_TRUE(append_numbered(*writer, 9, 13));

  // WHEN they are read
  auto reader = make_reader(*writer);
  uint64_t next = 0;
  const auto read = reader->read([&](const Record& record) {
    EXPECT_EQ(record.sequence, next++);
    EXPECT_GT(record.time_ns, 0);
    switch (record.type) {
      case RecordType::kStats:
        EXPECT_EQ(record.mode, Mode::kEval);
        EXPECT_EQ(record.step, 7);
        ASSERT_EQ(record.stats.size(), 2u);
        // Byte for byte, the sums included.
        // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
        EXPECT_EQ(std::memcmp(&record.stats[1], &stats, sizeof stats), 0);
        break;
      case RecordType::kScalars:
        EXPECT_EQ(record.step, -1);
        ASSERT_EQ(record.scalars.size(), 1u);
        EXPECT_EQ(record.scalars[0].value, 2.5);
        break;
      case RecordType::kEvent:
        EXPECT_EQ(record.mode, Mode::kGlobal);
        EXPECT_EQ(record.event_kind, "attached");
        EXPECT_EQ(record.event_json, "{}");
        break;
      case RecordType::kHistogram:
        ASSERT_EQ(record.bins.size(), 1u);
        EXPECT_EQ(record.bins[0].elements, 9u);
        break;
      default:
        EXPECT_TRUE(is_numbered(record));
    }
  });

  // THEN all are there, in order, with the definition
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read.value(), 5u);
  ASSERT_EQ(reader->definitions().size(), 1u);
  EXPECT_EQ(reader->definitions()[0].name, "net.0.weight");
  EXPECT_EQ(reader->definitions()[0].sizes, (std::vector<int64_t>{2, 3}));
}

TEST_F(RingTest, wraps_many_times_with_records_of_all_lengths) {
  auto writer = make_writer();
  define_tensor(*writer);
  auto reader = make_reader(*writer);
  int64_t step = 0;
  for (uint32_t round = 0; round < 400; round++) {
    const int64_t first = step;
    for (int i = 0; i < 5; i++, step++) {
      ASSERT_TRUE(append_numbered(*writer, step, static_cast<uint32_t>(step * 37 % 4000)));
    }
    ASSERT_EQ(read_steps(*reader), range(first, step));
    reader->acknowledge();
  }
  EXPECT_EQ(writer->dropped_records(), 0u);
}

TEST_F(RingTest, padding_of_every_length_at_the_end_is_skipped) {
  for (uint32_t rest = 0; rest <= 128; rest += kRecordAlignment) {
    // GIVEN a ring whose next place is `rest` bytes before the end
    RingOptions made = options();
    made.ring_id = rest;
    auto writer = RingWriter::create(made).value();
    define_tensor(*writer);
    auto reader = make_reader(*writer);
    uint32_t left = kRingBytesMin - rest;
    int64_t step = 0;
    for (; left > 0; step++) {
      const uint32_t bytes = left > 16384 ? 8192 : std::min(left, 16384u);
      ASSERT_TRUE(append_numbered(*writer, step, bytes - kFixedBytes));
      left -= bytes;
    }
    EXPECT_EQ(read_steps(*reader), range(0, step));
    reader->acknowledge();
    // WHEN a record follows that needs 136 bytes, more than the rest
    ASSERT_TRUE(append_numbered(*writer, step, 64));
    ASSERT_TRUE(append_numbered(*writer, step + 1, 64));
    // THEN both are read, from the beginning of the ring on
    EXPECT_EQ(read_steps(*reader), range(step, step + 2)) << rest;
  }
}

TEST_F(RingTest, a_full_ring_drops_and_counts_and_takes_records_again_once_acknowledged) {
  auto writer = make_writer();
  define_tensor(*writer);
  int64_t step = 0;
  while (append_numbered(*writer, step, 1000)) step++;
  ASSERT_FALSE(append_numbered(*writer, step, 1000));
  EXPECT_EQ(writer->dropped_records(), 2u);

  auto reader = make_reader(*writer);
  EXPECT_EQ(read_steps(*reader), range(0, step));
  EXPECT_FALSE(append_numbered(*writer, step, 1000)) << "read is not yet acknowledged";
  reader->acknowledge();
  EXPECT_TRUE(append_numbered(*writer, step, 1000));
  uint64_t sequence = 0;
  ASSERT_TRUE(reader->read([&](const Record& record) { sequence = record.sequence; }).ok());
  EXPECT_EQ(sequence, static_cast<uint64_t>(step) + 3) << "dropped records use up their numbers";
  EXPECT_EQ(reader->state().dropped_records, 3u);
}

TEST_F(RingTest, the_ring_can_be_filled_to_the_last_byte) {
  auto writer = make_writer();
  define_tensor(*writer);
  for (int64_t step = 0; step < 8; step++) {
    ASSERT_TRUE(append_numbered(*writer, step, kRingBytesMin / 8 - kFixedBytes));
  }
  EXPECT_EQ(writer->free_bytes(), 0u);
  EXPECT_FALSE(append_numbered(*writer, 8, 0));
  auto reader = make_reader(*writer);
  EXPECT_EQ(reader->state().fill, 1.0);
  EXPECT_EQ(read_steps(*reader), range(0, 8));
}

TEST_F(RingTest, a_record_above_the_limit_is_dropped_and_counted) {
  auto writer = make_writer();
  define_tensor(*writer);
  EXPECT_TRUE(append_numbered(*writer, 0, writer->record_bytes_max() - kFixedBytes));
  EXPECT_FALSE(append_numbered(*writer, 1, writer->record_bytes_max() - kFixedBytes + 1));
  EXPECT_EQ(writer->dropped_records(), 1u);
}

TEST_F(RingTest, a_reader_that_starts_again_repeats_only_what_was_not_acknowledged) {
  auto writer = make_writer();
  define_tensor(*writer);
  for (int64_t step = 0; step < 4; step++) append_numbered(*writer, step, 10);
  {
    auto reader = make_reader(*writer);
    EXPECT_EQ(read_steps(*reader), range(0, 4));
    reader->acknowledge();
    append_numbered(*writer, 4, 10);
    EXPECT_EQ(read_steps(*reader), range(4, 5));
  }
  auto reader = make_reader(*writer);
  EXPECT_EQ(read_steps(*reader), range(4, 5));
  EXPECT_EQ(reader->definitions().size(), 1u);
}

TEST_F(RingTest, only_one_reader_drains_a_ring) {
  auto writer = make_writer();
  auto reader = make_reader(*writer);
  EXPECT_EQ(RingReader::open(writer->path()).status().code(), StatusCode::kExhausted);
  reader.reset();
  EXPECT_TRUE(RingReader::open(writer->path()).ok());
}

TEST_F(RingTest, the_file_is_private_named_after_its_run_and_whole) {
  RingOptions made = options();
  made.pid = 4242;
  made.ring_id = 0xabc;
  made.ring_bytes = kRingBytesMin + 1;
  auto writer = RingWriter::create(made).value();
  EXPECT_EQ(writer->path(), folder_ + "/paramedic-test-4242-0000000000000abc.ring");
  struct stat info{};
  ASSERT_EQ(::stat(writer->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(info.st_size, 4096 + 4096 + 2 * kRingBytesMin);
  EXPECT_GE(info.st_blocks * 512, info.st_size) << "pages are there: no SIGBUS when it is full";
  EXPECT_FALSE(RingWriter::create(made).ok()) << "an existing ring is never overwritten";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "nothing unfinished is left";
}

TEST_F(RingTest, a_ring_that_cannot_be_made_is_an_error_that_says_why) {
  RingOptions made = options();
  made.directory = folder_ + "/missing";
  EXPECT_EQ(RingWriter::create(made).status().code(), StatusCode::kNotFound);
  made = options();
  for (const char* run_id : {"", "../x", "a/b", ".hidden", "a b"}) {
    made.run_id = run_id;
    EXPECT_EQ(RingWriter::create(made).status().code(), StatusCode::kInvalidArgument) << run_id;
  }
}

TEST_F(RingTest, a_long_name_is_cut_at_a_character) {
  auto writer = make_writer();
  std::string name(kNameBytesMax - 1, 'x');
  define_tensor(*writer, name + "\u00e9");
  auto reader = make_reader(*writer);
  ASSERT_TRUE(reader->read([](const Record&) {}).ok());
  EXPECT_EQ(reader->definitions()[0].name, name);
}

TEST_F(RingTest, a_full_directory_refuses_definitions_and_keeps_the_others) {
  auto writer = make_writer();
  DefinitionSpec spec;
  spec.name = "x";
  uint32_t defined = 0;
  while (writer->define(spec)) defined++;
  EXPECT_EQ(defined, 4096u / 120);
  EXPECT_LE(defined, writer->definitions_max());
  auto reader = make_reader(*writer);
  ASSERT_TRUE(reader->read([](const Record&) {}).ok());
  EXPECT_EQ(reader->definitions().size(), defined);
}

TEST_F(RingTest, the_header_tells_rank_step_and_end) {
  RingOptions made = options();
  made.rank = 3;
  made.world_size = 8;
  auto writer = RingWriter::create(made).value();
  auto reader = make_reader(*writer);
  EXPECT_EQ(reader->state().rank, 3);
  EXPECT_EQ(reader->state().world_size, 8);
  EXPECT_EQ(reader->state().pid, ::getpid());
  EXPECT_EQ(reader->state().last_step, -1);
  EXPECT_FALSE(reader->state().closed);
  writer->step_done(12, 4000);
  writer->close();
  EXPECT_EQ(reader->state().last_step, 12);
  EXPECT_EQ(reader->state().overhead_ppm, 4000u);
  EXPECT_TRUE(reader->state().closed);
  EXPECT_FALSE(append_numbered(*writer, 0, 8)) << "a closed ring takes no more";
}

TEST_F(RingTest, two_threads_write_whole_records_or_drop_and_count) {
  // GIVEN two writers as fast as they can, and a reader that keeps up
  RingOptions made = options();
  made.ring_bytes = 1 << 20;
  auto writer = RingWriter::create(made).value();
  define_tensor(*writer);
  auto reader = make_reader(*writer);
  constexpr int64_t kEach = 5000;
  std::atomic<int> running = 2;
  std::atomic<uint64_t> written = 0;
  const auto write = [&](int64_t first) {
    for (int64_t i = 0; i < kEach; i++) written += append_numbered(*writer, first + i, 100) ? 1 : 0;
    running--;
  };
  std::thread one(write, 0);
  std::thread two(write, kEach);
  // WHEN all is read
  std::vector<int64_t> last = {-1, kEach - 1};
  uint64_t read = 0;
  bool finished = false;
  do {
    finished = running == 0;
    for (const int64_t step : read_steps(*reader)) {
      int64_t& before = last[step < kEach ? 0 : 1];
      ASSERT_GT(step, before) << "a thread's records keep their order";
      before = step;
      read++;
    }
    reader->acknowledge();
  } while (!finished);
  one.join();
  two.join();
  // THEN nothing is lost uncounted
  EXPECT_EQ(read, written);
  EXPECT_EQ(read + writer->dropped_records(), 2u * kEach);
}

TEST_F(RingTest, a_forked_child_never_writes_into_the_ring_of_its_parent) {
  auto writer = make_writer();
  define_tensor(*writer);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool wrote = append_numbered(*writer, 1, 8) || writer->owned_by_this_process() ||
                       writer->define({}).has_value();
    writer->count_drop();
    writer->step_done(5, 5);
    writer->close();
    ::_exit(wrote ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(append_numbered(*writer, 0, 8));
  auto reader = make_reader(*writer);
  EXPECT_EQ(read_steps(*reader), range(0, 1));
  EXPECT_EQ(reader->state().dropped_records, 0u);
  EXPECT_EQ(reader->state().last_step, -1);
  EXPECT_FALSE(reader->state().closed);
}

TEST_F(RingTest, a_writer_believes_no_tail_that_cannot_be) {
  auto writer = make_writer();
  define_tensor(*writer);
  append_numbered(*writer, 0, 8);
  const int fd = ::open(writer->path().c_str(), O_RDWR);
  const uint64_t tail = std::numeric_limits<uint64_t>::max() - 7;
  ASSERT_EQ(::pwrite(fd, &tail, sizeof tail, offsetof(RingHeader, tail)), 8);
  ::close(fd);
  EXPECT_EQ(writer->free_bytes(), 0u);
  EXPECT_FALSE(append_numbered(*writer, 1, 8));
}

}  // namespace
}  // namespace paramedic::record
