#pragma once
// For tests of rings only: a folder that goes away again, records of known content, and the path
// of the ring in the folder.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "record/ring_reader.h"
#include "record/ring_writer.h"

namespace paramedic::record {

class RingTest : public testing::Test {
 protected:
  [[nodiscard]] RingOptions options() const {
    RingOptions options;
    options.directory = folder_;
    options.run_id = "test";
    options.ring_bytes = kRingBytesMin;
    options.directory_bytes = 4096;
    return options;
  }
  [[nodiscard]] std::unique_ptr<RingWriter> make_writer() const {
    auto writer = RingWriter::create(options());
    EXPECT_TRUE(writer.ok()) << writer.status().to_string();
    return std::move(writer).value();
  }
  static std::unique_ptr<RingReader> make_reader(const RingWriter& writer) {
    auto reader = RingReader::open(writer.path());
    EXPECT_TRUE(reader.ok()) << reader.status().to_string();
    return std::move(reader).value();
  }

  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
};

// A record of `value_bytes` raw bytes whose content follows from `step`: byte i is step + i.
inline bool append_numbered(RingWriter& writer, int64_t step, uint32_t value_bytes) {
  std::vector<std::byte> values(value_bytes);
  for (uint32_t i = 0; i < value_bytes; i++) values[i] = static_cast<std::byte>(step + i);
  TensorItem item{};
  item.total_bytes = value_bytes;
  item.piece_bytes = value_bytes;
  const std::array<Bytes, 2> parts = {std::as_bytes(std::span(&item, 1)), Bytes(values)};
  return writer.append({RecordType::kTensor, Mode::kTrain, step, 1}, parts);
}

inline bool is_numbered(const Record& record) {
  if (record.type != RecordType::kTensor || record.piece.size() != record.total_bytes) return false;
  for (size_t i = 0; i < record.piece.size(); i++) {
    if (record.piece[i] != static_cast<std::byte>(record.step + static_cast<int64_t>(i))) {
      return false;
    }
  }
  return true;
}

// Steps of all records that can be read now; each must have its right content.
inline std::vector<int64_t> read_steps(RingReader& reader) {
  std::vector<int64_t> steps;
  const auto read = reader.read([&](const Record& record) {
    EXPECT_TRUE(is_numbered(record)) << "step " << record.step;
    steps.push_back(record.step);
  });
  EXPECT_TRUE(read.ok()) << read.status().to_string();
  return steps;
}

inline uint32_t define_tensor(RingWriter& writer, std::string_view name = "net.0.weight") {
  const std::array<int64_t, 2> sizes = {2, 3};
  DefinitionSpec spec;
  spec.kind = Kind::kWeight;
  spec.sizes = sizes;
  spec.name = name;
  return writer.define(spec).value();
}

}  // namespace paramedic::record
