// docs/formats/ring.md describes the format with an example: this makes the example and compares
// it with the document byte by byte, both ways.

#include <fstream>
#include <set>

#include "record/test_ring.h"

namespace paramedic::record {
namespace {

// A broadcast of one float from rank 0, left after a millisecond.
void append_collective(RingWriter& writer, VirtualClock& clock) {
  const std::array<int64_t, 1> line = {45};
  EXPECT_EQ(writer.define({Kind::kGroup, stats::DType::kFloat32, {}, "0"}), 2u);
  EXPECT_EQ(writer.define({Kind::kOperation, stats::DType::kFloat32, {}, "broadcast"}), 3u);
  EXPECT_EQ(writer.define({Kind::kCallSite, stats::DType::kFloat32, line, "main\ntrain.py"}), 4u);
  CollectiveItem item{};
  item.group = 2;
  item.operation = 3;
  item.where = 4;
  item.number = 7;
  item.bytes = 4;
  item.dtype = static_cast<uint8_t>(stats::DType::kFloat32);
  const std::array<int64_t, 1> sizes = {1};
  const std::array<Bytes, 2> entered = {std::as_bytes(std::span(&item, 1)),
                                        std::as_bytes(std::span(sizes))};
  EXPECT_TRUE(writer.append({RecordType::kCollectiveEntered, Mode::kTrain, 41, 1}, entered));
  clock.advance(1'000'000);
  const CollectiveLeftItem left{2, 0, 7};
  const std::array<Bytes, 1> parts = {std::as_bytes(std::span(&left, 1))};
  EXPECT_TRUE(writer.append({RecordType::kCollectiveLeft, Mode::kTrain, 41, 1}, parts));
}

// The ring of the document's example.
std::string write_example(const std::string& folder) {
  VirtualClock clock(1796000000250000000);
  RingOptions options;
  options.directory = folder;
  options.run_id = "example";
  options.ring_bytes = kRingBytesMin;
  options.directory_bytes = 4096;
  options.rank = 1;
  options.world_size = 2;
  options.ring_id = 0x0123456789abcdef;
  options.pid = 4242;
  options.clock = &clock;
  auto writer = RingWriter::create(options).value();

  const std::array<int64_t, 2> sizes = {2, 3};
  DefinitionSpec gradient;
  gradient.kind = Kind::kGradient;
  gradient.sizes = sizes;
  gradient.name = "net.0.weight";
  EXPECT_EQ(writer->define(gradient), 0u);
  DefinitionSpec loss;
  loss.kind = Kind::kScalar;
  loss.name = "loss/train.py:31";
  EXPECT_EQ(writer->define(loss), 1u);

  StatsItem item{};
  item.stats = {.count = 6,
                .nan = 1,
                .zero = 2,
                .negative = 1,
                .min = -0.5,
                .max = 2,
                .sum = 1.75,
                .sum_abs = 2.75,
                .sum_squares = 4.3125};
  const std::array<Bytes, 1> stats = {std::as_bytes(std::span(&item, 1))};
  EXPECT_TRUE(writer->append({RecordType::kStats, Mode::kTrain, 40, 1}, stats));
  clock.advance(1'000'000);
  const ScalarItem value{1, 0, 0.6931471805599453};
  const std::array<Bytes, 1> scalars = {std::as_bytes(std::span(&value, 1))};
  EXPECT_TRUE(writer->append({RecordType::kScalars, Mode::kTrain, 40, 1}, scalars));
  writer->step_done(40, 3125);
  append_collective(*writer, clock);
  writer->close();
  return writer->path();
}

// "00001000: 8000 0000 f745 …  …" as xxd prints: the address and up to 16 bytes.
bool parse_dump_line(const std::string& line, uint64_t* address, std::vector<uint8_t>* bytes) {
  if (line.size() < 12 || line[8] != ':' || line.find_first_not_of("0123456789abcdef") != 8) {
    return false;
  }
  *address = std::stoull(line.substr(0, 8), nullptr, 16);
  bytes->clear();
  for (size_t at = 10; at + 1 < line.size() && line[at] != ' '; at += 2) {
    bytes->push_back(static_cast<uint8_t>(std::stoul(line.substr(at, 2), nullptr, 16)));
    if (at + 2 < line.size() && line[at + 2] == ' ') at++;
  }
  return true;
}

TEST_F(RingTest, the_example_of_the_format_document_is_what_the_writer_writes) {
  const std::string path = write_example(folder_);
  EXPECT_EQ(std::filesystem::path(path).filename(), "paramedic-example-4242-0123456789abcdef.ring");
  const std::string file = posix_file_system().read(path).value();

  std::ifstream document(PARAMEDIC_SOURCE_DIR "/docs/formats/ring.md");
  ASSERT_TRUE(document.is_open());
  std::set<uint64_t> shown;
  uint64_t address = 0;
  std::vector<uint8_t> bytes;
  for (std::string line; std::getline(document, line);) {
    if (!parse_dump_line(line, &address, &bytes)) continue;
    ASSERT_LE(address + bytes.size(), file.size()) << line;
    for (size_t i = 0; i < bytes.size(); i++) {
      ASSERT_EQ(static_cast<uint8_t>(file[address + i]), bytes[i]) << line;
      shown.insert(address + i);
    }
  }
  for (size_t at = 0; at < file.size(); at++) {
    ASSERT_TRUE(file[at] == 0 || shown.contains(at)) << "byte " << at << " is not in the document";
  }
}

}  // namespace
}  // namespace paramedic::record
