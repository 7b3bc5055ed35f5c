// A hostile segment: the input becomes the messages of a table's segment, with an index whose
// checksums hold, so that the bytes come past the checksums to the parser of Arrow messages. The
// first byte says what is done with them: a table for the messages, or the bytes as the index.

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/crc32c.h"
#include "store/run.h"
#include "store/segment_format.h"
#include "store/tables.h"

namespace paramedic::store {
namespace {

// A run folder in memory, used again for every input.
class FuzzRun {
 public:
  FuzzRun() {
    std::string name = "/dev/shm/paramedic-fuzz-XXXXXX";
    const char* made = ::mkdtemp(name.data());
    PARAMEDIC_CHECK(made != nullptr);
    dir_ = name;
    RunInfo info;
    info.id = "fuzz";
    info.status = "finished";
    write("/run.json", to_text(info.to_json()));
    for (size_t i = 0; i < kTableCount; i++) {
      std::filesystem::create_directory(dir_ + "/" + table_name(static_cast<TableId>(i)));
    }
  }
  FuzzRun(const FuzzRun&) = delete;
  FuzzRun& operator=(const FuzzRun&) = delete;
  ~FuzzRun() { std::filesystem::remove_all(dir_); }

  void put(TableId table, const std::string& data, const std::string& index) {
    stem_ = std::string("/") + table_name(table) + "/rank-0-000000";
    write(stem_ + ".arrows", data);
    write(stem_ + ".idx", index);
  }

  void read_all() {
    const auto reader = RunReader::open(dir_).value();
    (void)reader->read_stats([](const StatsRow&) { return true; });
    (void)reader->read_histograms([](const HistogramRow&) { return true; });
    (void)reader->read_scalars([](const ScalarRow&) { return true; });
    (void)reader->read_events([](const EventRow&) { return true; });
    (void)reader->read_model([](const ModelRow&) { return true; });
    (void)reader->read_tensor_pieces([](const TensorPieceRow&) { return true; });
    (void)reader->read_collectives([](const CollectiveRow&) { return true; });
    (void)reader->read_metrics([](const MetricRow&) { return true; });
    (void)reader->read_findings();
    RowSink sink;
    (void)reader->replay(sink);
    std::filesystem::remove(dir_ + stem_ + ".arrows");
    std::filesystem::remove(dir_ + stem_ + ".idx");
  }

 private:
  void write(const std::string& path, const std::string& bytes) {
    std::ofstream(dir_ + path, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string dir_;
  std::string stem_;
};

// An index that calls the data one batch of as many rows as asked for, with a good checksum.
std::string index_of(const std::string& data, uint32_t rows) {
  IndexEntry entry;
  entry.bytes = data.size();
  entry.rows = rows;
  entry.message_crc = crc32c(data.data(), data.size());
  return encode(IndexHeader()) + encode(entry);
}

}  // namespace
}  // namespace paramedic::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace paramedic::store;  // NOLINT(google-build-using-namespace): one function
  static FuzzRun run;
  if (size < 2) return 0;
  const auto table = static_cast<TableId>(bytes[0] % kTableCount);
  const std::string data(reinterpret_cast<const char*>(bytes + 2), size - 2);
  if (bytes[0] < 128) {
    run.put(table, data, index_of(data, bytes[1]));
  } else {
    run.put(table, std::string(bytes[1], 'x'), data);
  }
  run.read_all();
  return 0;
}
