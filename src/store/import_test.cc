// From the ring through importer and writer to the reader, and the adoption of what a dead agent
// left behind. Rings are real files, written by the probe's own writer.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "record/ring_writer.h"
#include "store/test_support.h"

namespace paramedic::store {
namespace {

template <typename T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

class ImportTest : public testing::Test {
 protected:
  [[nodiscard]] std::string dir() const { return folder_.path() + "/run"; }

  std::unique_ptr<record::RingWriter> make_ring(const std::string& run_id, uint64_t ring_id,
                                                int32_t pid) {
    record::RingOptions options;
    options.directory = folder_.path();
    options.run_id = run_id;
    options.ring_bytes = record::kRingBytesMin;
    options.rank = 1;
    options.world_size = 2;
    options.ring_id = ring_id;
    options.pid = pid;
    return record::RingWriter::create(options).value();
  }

  // A record of each type and a model event that is damaged: seven records, eight rows.
  static void write_records(record::RingWriter& ring) {
    const int64_t sizes[] = {2, 3};
    const auto tensor =
        ring.define({Kind::kGradient, stats::DType::kBfloat16, sizes, "net.0.weight"});
    const auto odd = ring.define({Kind::kWeight, stats::DType::kFloat32, sizes, "w\xff"});
    const auto loss = ring.define({Kind::kScalar, stats::DType::kFloat32, {}, "loss/train.py:7"});
    ASSERT_TRUE(tensor && odd && loss);
    record::StatsItem items[2] = {};
    items[0].id = *tensor;
    items[0].stats.count = 6;
    items[0].stats.sum = 0.5;
    items[0].units = 3;
    items[0].units_dead = 1;
    items[1].id = *odd;
    items[1].stats.count = 9;
    items[1].outside = 9;
    const Bytes stats[] = {std::as_bytes(std::span(items))};
    EXPECT_TRUE(ring.append({record::RecordType::kStats, Mode::kTrain, 4, 2}, stats));
    const record::ScalarItem scalar = {*loss, 0, 2.25};
    const Bytes scalars[] = {bytes_of(scalar)};
    EXPECT_TRUE(ring.append({record::RecordType::kScalars, Mode::kEval, 5, 1}, scalars));
    const record::HistogramItem histogram = {*tensor, 0};
    const record::HistogramBin bins[] = {{3, 0, 40}, {300, 0, 2}};
    const Bytes bin_parts[] = {bytes_of(histogram), std::as_bytes(std::span(bins))};
    EXPECT_TRUE(ring.append({record::RecordType::kHistogram, Mode::kTrain, 5, 2}, bin_parts));
    const record::TensorItem piece = {*tensor, 0, 12, 4, 8, 0};
    const Bytes piece_parts[] = {bytes_of(piece), as_bytes("12345678")};
    EXPECT_TRUE(ring.append({record::RecordType::kTensor, Mode::kTrain, 5, 1}, piece_parts));
    write_event(ring, "not_captured", R"({"what":"x","why":"y"})");
    write_event(ring, "model",
                R"({"fit":1,"kind":"module","name":"net.0","class":"Linear","file":"train.py",)"
                R"("line":31,"function":"forward","detail":{"in":64}})");
    write_event(ring, "model", R"({"fit":1,)");
  }

  static void write_event(record::RingWriter& ring, std::string_view kind, std::string_view json) {
    const record::EventItem event = {static_cast<uint32_t>(kind.size()),
                                     static_cast<uint32_t>(json.size())};
    const Bytes parts[] = {bytes_of(event), as_bytes(kind), as_bytes(json)};
    EXPECT_TRUE(ring.append({record::RecordType::kEvent, Mode::kGlobal, -1, 1}, parts));
  }

  std::unique_ptr<RunWriter> make_run(const RunInfo& info) {
    return RunWriter::create(posix_file_system(), info, WriterOptions(), real_clock()).value();
  }

  TemporaryFolder folder_;
};

TEST_F(ImportTest, records_become_rows_of_their_tables) {
  const auto ring = make_ring("run-7", 0xabc, ::getpid());
  write_records(*ring);
  const auto importer = RingImporter::open(ring->path(), std::nullopt).value();
  RowLog live;
  const Result<uint64_t> drained = importer->drain(live);
  ASSERT_TRUE(drained.ok()) << drained.status().message();
  EXPECT_EQ(*drained, 7u);
  EXPECT_EQ(RingImporter::open(ring->path(), std::nullopt).status().code(), StatusCode::kExhausted)
      << "one importer at a time";
  EXPECT_EQ(live.tables[TableId::kStats].size(), 2u);
  EXPECT_EQ(live.tables[TableId::kScalars].size(), 1u);
  EXPECT_EQ(live.tables[TableId::kHistograms].size(), 1u);
  EXPECT_EQ(live.tables[TableId::kTensors].size(), 1u);
  EXPECT_EQ(live.tables[TableId::kModel].size(), 1u);
  ASSERT_EQ(live.tables[TableId::kEvents].size(), 2u) << "a malformed model event stays an event";
  EXPECT_NE(live.tables[TableId::kModel][0].find("class=Linear"), std::string::npos);
  EXPECT_NE(live.tables[TableId::kStats][1].find("name=w\xef\xbf\xbd "), std::string::npos);
}

TEST_F(ImportTest, what_was_stored_is_what_the_rules_saw_live) {
  const auto ring = make_ring("run-7", 0xabc, ::getpid());
  write_records(*ring);
  RowLog live;
  {
    const auto importer = RingImporter::open(ring->path(), std::nullopt).value();
    ASSERT_TRUE(importer->drain(live).ok());
  }
  const auto importer = RingImporter::open(ring->path(), std::nullopt).value();
  const auto writer = make_run(example_info(dir()));
  ASSERT_EQ(importer->drain(*writer).value(), 7u) << "nothing was acknowledged before";
  ASSERT_TRUE(writer->flush().ok());
  importer->acknowledge();
  EXPECT_EQ(writer->stored_sequences().at(0xabc), 6u);
  const auto reader = RunReader::open(dir()).value();
  EXPECT_EQ(read_all(*reader), live.tables);
  RowLog replayed;
  ASSERT_TRUE(reader->replay(replayed).ok());
  std::erase_if(live.all, [](const std::string& row) { return row.starts_with("tensors:"); });
  EXPECT_EQ(replayed.all, live.all);
}

TEST_F(ImportTest, sequences_that_are_stored_already_are_skipped) {
  const auto ring = make_ring("run-7", 0xabc, ::getpid());
  write_records(*ring);
  const auto importer = RingImporter::open(ring->path(), 4).value();
  RowLog log;
  ASSERT_TRUE(importer->drain(log).ok());
  EXPECT_EQ(log.all.size(), 2u) << "sequences 5 and 6";
}

TEST_F(ImportTest, the_state_tells_what_the_header_says) {
  const auto ring = make_ring("run-7", 0xabc, 4711);
  ring->step_done(12, 2500);
  const auto importer = RingImporter::open(ring->path(), std::nullopt).value();
  EXPECT_FALSE(importer->state().closed);
  ring->close();
  const RingImporter::State state = importer->state();
  EXPECT_EQ(state.path, ring->path());
  EXPECT_EQ(state.ring_id, 0xabcu);
  EXPECT_EQ(state.pid, 4711);
  EXPECT_EQ(state.rank, 1);
  EXPECT_EQ(state.world_size, 2);
  EXPECT_EQ(state.last_step, 12);
  EXPECT_DOUBLE_EQ(state.overhead_percent, 0.25);
  EXPECT_TRUE(state.closed);
}

// A process number that no process has any more.
int dead_pid() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return child;
}

class AdoptTest : public ImportTest {
 protected:
  RunInfo info_of_dead_agent() {
    RunInfo info = example_info(dir());
    info.agent_pid = dead_pid();
    info.agent_start_ticks = 1;
    info.ring_dir = folder_.path();
    return info;
  }
};

TEST_F(AdoptTest, rings_are_found_by_the_id_of_their_run_alone) {
  const auto a = make_ring("run", 1, 10);
  const auto b = make_ring("run-5", 2, 11);
  const auto c = make_ring("run", 3, 12);
  write_file(folder_.path() + "/paramedic-run-5-x.ring", "");
  write_file(folder_.path() + "/paramedic-run-5-7.ring.tmp", "");
  EXPECT_EQ(find_rings(folder_.path(), "run"), (std::vector<std::string>{a->path(), c->path()}));
  EXPECT_EQ(find_rings(folder_.path(), "run-5"), std::vector<std::string>{b->path()});
  EXPECT_TRUE(find_rings("/nowhere", "run").empty());
}

TEST_F(AdoptTest, what_a_dead_agent_left_is_stored_and_the_run_is_lost) {
  const RunInfo info = info_of_dead_agent();
  ASSERT_TRUE(make_run(info)->seal().ok());
  const auto ring = make_ring(info.id, 0xabc, dead_pid());
  write_records(*ring);
  ring->step_done(5, 100);
  EXPECT_TRUE(adopt_orphans(dir()).value());
  const auto reader = RunReader::open(dir()).value();
  EXPECT_EQ(count_rows(read_all(*reader)), 8u);
  EXPECT_EQ(reader->info().status, "lost");
  ASSERT_EQ(reader->info().ranks.size(), 1u);
  EXPECT_EQ(reader->info().ranks[0].last_step, 5);
  EXPECT_EQ(reader->info().ranks[0].status, "lost");
  EXPECT_EQ(reader->info().steps, 6);
  EXPECT_TRUE(reader->info().ended.has_value());
  EXPECT_FALSE(std::filesystem::exists(ring->path()));
  EXPECT_FALSE(adopt_orphans(dir()).value()) << "there is nothing left";
}

TEST_F(AdoptTest, a_ring_whose_writer_lives_is_emptied_and_kept) {
  const RunInfo info = info_of_dead_agent();
  ASSERT_TRUE(make_run(info)->seal().ok());
  const auto ring = make_ring(info.id, 0xabc, ::getpid());
  write_records(*ring);
  EXPECT_TRUE(adopt_orphans(dir()).value());
  EXPECT_TRUE(std::filesystem::exists(ring->path()));
  write_records(*ring);
  EXPECT_TRUE(adopt_orphans(dir()).value());
  const auto reader = RunReader::open(dir()).value();
  EXPECT_EQ(count_rows(read_all(*reader)), 16u) << "each record once";
  EXPECT_EQ(reader->info().ranks.at(0).status, "running");
}

TEST_F(AdoptTest, records_stored_but_not_acknowledged_are_not_stored_again) {
  const RunInfo info = info_of_dead_agent();
  const auto ring = make_ring(info.id, 0xabc, dead_pid());
  write_records(*ring);
  {
    const auto importer = RingImporter::open(ring->path(), std::nullopt).value();
    const auto writer = make_run(info);
    ASSERT_TRUE(importer->drain(*writer).ok());
    ASSERT_TRUE(writer->flush().ok());
  }
  write_event(*ring, "exception", "{}");
  EXPECT_TRUE(adopt_orphans(dir()).value());
  EXPECT_EQ(count_rows(read_all(dir())), 9u);
}

TEST_F(AdoptTest, a_run_without_rings_that_says_running_is_marked_lost) {
  ASSERT_TRUE(make_run(info_of_dead_agent())->seal().ok());
  EXPECT_TRUE(adopt_orphans(dir()).value());
  EXPECT_EQ(RunReader::open(dir()).value()->info().status, "lost");
}

TEST_F(AdoptTest, a_run_whose_agent_lives_is_left_alone) {
  RunInfo info = info_of_dead_agent();
  info.agent_pid = ::getpid();
  std::string stat = read_file("/proc/self/stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string field;
  constexpr int kFieldsAfterName = 20;  // field 3 is the first after the name, 22 is wanted
  for (int i = 0; i < kFieldsAfterName; i++) fields >> field;
  info.agent_start_ticks = std::stoull(field);
  ASSERT_TRUE(make_run(info)->seal().ok());
  const auto ring = make_ring(info.id, 0xabc, dead_pid());
  EXPECT_FALSE(adopt_orphans(dir()).value());
  EXPECT_TRUE(std::filesystem::exists(ring->path()));
}

TEST_F(AdoptTest, a_process_that_got_the_agents_number_later_is_not_the_agent) {
  RunInfo info = info_of_dead_agent();
  info.agent_pid = ::getpid();
  ASSERT_TRUE(make_run(info)->seal().ok());
  EXPECT_TRUE(adopt_orphans(dir()).value());
}

TEST_F(AdoptTest, a_run_of_another_machine_is_left_alone) {
  RunInfo info = info_of_dead_agent();
  info.host = "some-other-node";
  ASSERT_TRUE(make_run(info)->seal().ok());
  EXPECT_FALSE(adopt_orphans(dir()).value());
}

TEST_F(AdoptTest, two_never_adopt_at_once) {
  ASSERT_TRUE(make_run(info_of_dead_agent())->seal().ok());
  const int fd = ::open(dir().c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  EXPECT_FALSE(adopt_orphans(dir()).value());
  ::close(fd);
  EXPECT_TRUE(adopt_orphans(dir()).value());
}

TEST_F(AdoptTest, a_file_that_is_no_ring_is_left_as_it_is) {
  const RunInfo info = info_of_dead_agent();
  ASSERT_TRUE(make_run(info)->seal().ok());
  const std::string path = folder_.path() + "/paramedic-" + info.id + "-1-a.ring";
  write_file(path, "junk");
  EXPECT_TRUE(adopt_orphans(dir()).value()) << "the run is marked lost";
  EXPECT_FALSE(adopt_orphans(dir()).value());
  EXPECT_EQ(read_file(path), "junk");
}

}  // namespace
}  // namespace paramedic::store
