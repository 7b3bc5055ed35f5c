// The ring reader on any bytes. The first byte chooses: the header as it comes, or a whole one, so
// that directory and records are reached; and whether checksums are put right, so that what lies
// behind them is reached.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "record/ring_reader.h"

namespace {

using paramedic::Bytes;
using paramedic::crc32c;
using namespace paramedic::record;

constexpr uint32_t kDirectoryBytes = 4096;
constexpr size_t kFileBytes = kHeaderBytes + kDirectoryBytes + kRingBytesMin;
constexpr size_t kCrcEnd = offsetof(RecordHeader, crc) + sizeof(uint32_t);

void write_whole_header(RingHeader* header, size_t directory_used, size_t ring_used) {
  header->magic = kRingMagic;
  header->version = kRingVersion;
  header->header_bytes = kHeaderBytes;
  header->directory_bytes = kDirectoryBytes;
  header->ring_bytes = kRingBytesMin;
  header->world_size = 1;
  header->directory_used = directory_used;
  header->head = ring_used;
  header->header_crc = crc32c(header, offsetof(RingHeader, header_crc));
}

// Gives each record that has a possible length its right checksum.
void put_checksums_right(char* bytes, size_t size) {
  for (size_t at = 0; at + sizeof(RecordHeader) <= size;) {
    uint32_t length = 0;
    std::memcpy(&length, bytes + at, sizeof length);
    if (length < sizeof(RecordHeader) || length % kRecordAlignment != 0 || length > size - at) {
      return;
    }
    const uint32_t crc = crc32c(bytes + at + kCrcEnd, length - kCrcEnd);
    std::memcpy(bytes + at + offsetof(RecordHeader, crc), &crc, sizeof crc);
    at += length;
  }
}

void check(bool condition) {
  if (!condition) std::abort();
}

// Touches every byte that a record gives out, so that the sanitizer sees what is out of bounds.
void touch(Bytes bytes) {
  static volatile uint32_t sum = 0;
  sum = sum + crc32c(bytes.data(), bytes.size());
}

void use(const Record& record, const RingReader& reader) {
  const size_t definitions = reader.definitions().size();
  for (const StatsItem& item : record.stats) {
    check(item.id < definitions && item.stats.non_finite() <= item.stats.count);
  }
  for (const ScalarItem& item : record.scalars) check(item.id < definitions);
  for (const HistogramBin& bin : record.bins) check(bin.bin < paramedic::stats::Histogram::kBins);
  check(record.offset_bytes + record.piece.size() <= record.total_bytes || record.piece.empty());
  if (record.type == RecordType::kCollectiveEntered) {
    const CollectiveItem& item = record.collective;
    check(item.group < definitions && item.operation < definitions && item.number >= 0);
    check(item.where < definitions || item.where == kNoDefinition);
    for (const int64_t size : record.sizes) check(size >= 0);
  }
  if (record.type == RecordType::kCollectiveLeft) check(record.left.group < definitions);
  touch(record.piece);
  touch(paramedic::as_bytes(record.event_kind));
  touch(paramedic::as_bytes(record.event_json));
}

void drain(RingReader& reader) {
  for (int i = 0; i < 2; i++) {
    const auto read = reader.read([&](const Record& record) { use(record, reader); });
    check(read.ok() || !read.status().message().empty());
    reader.acknowledge();
  }
  for (const Definition& definition : reader.definitions()) {
    check(definition.name.size() <= kNameBytesMax);
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const uint8_t choice = data[0];
  const size_t directory_share = data[1];
  data += 2;
  size -= 2;
  static std::vector<char> file(kFileBytes);
  std::fill(file.begin(), file.end(), 0);
  auto* header = reinterpret_cast<RingHeader*>(file.data());
  if ((choice & 1U) != 0) {
    const size_t header_bytes = std::min(size, sizeof(RingHeader));
    std::memcpy(file.data(), data, header_bytes);
    data += header_bytes;
    size -= header_bytes;
  }
  const size_t directory_used =
      std::min<size_t>(size * directory_share / 256, kDirectoryBytes) & ~size_t{7};
  const size_t ring_used = std::min<size_t>(size - directory_used, kRingBytesMin) & ~size_t{7};
  char* directory = file.data() + kHeaderBytes;
  char* ring = directory + kDirectoryBytes;
  std::memcpy(directory, data, directory_used);
  std::memcpy(ring, data + directory_used, ring_used);
  if ((choice & 1U) == 0) write_whole_header(header, directory_used, ring_used);
  if ((choice & 2U) == 0) {
    put_checksums_right(directory, directory_used);
    put_checksums_right(ring, ring_used);
    header->header_crc = crc32c(header, offsetof(RingHeader, header_crc));
  }

  const int fd = ::memfd_create("ring", MFD_CLOEXEC);
  check(fd >= 0 && ::ftruncate(fd, kFileBytes) == 0);
  // Only what is not zero, for speed: the rest of the file is a hole.
  check(::pwrite(fd, file.data(), kHeaderBytes + directory_used, 0) >= 0);
  check(::pwrite(fd, ring, ring_used, kHeaderBytes + kDirectoryBytes) >= 0);
  auto reader = RingReader::adopt(fd, "fuzz.ring");
  if (reader.ok()) {
    drain(*reader.value());
  } else {
    check(!reader.status().message().empty());
  }
  return 0;
}
