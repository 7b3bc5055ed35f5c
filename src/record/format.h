#pragma once
// The bytes of a ring file; docs/formats/ring.md tells the same with an example. Constants and
// plain structs only; `ring_writer.h` and `ring_reader.h` are the two sides.
//
//   | RingHeader, one page | directory: definitions, append-only | ring: records, wrapping |
//
// All numbers are little-endian. A reader that starts late finds every definition in the
// directory, which is never consumed; the ring holds what was not yet acknowledged.

#include <atomic>
#include <cstdint>

#include "stats/tensor_stats.h"

namespace paramedic::record {

constexpr uint64_t kRingMagic = 0x31474e4952444d50;  // "PMDRING1"
constexpr uint32_t kRingVersion = 2;                 // a reader refuses a newer one
constexpr uint32_t kHeaderBytes = 4096;
constexpr uint32_t kRecordAlignment = 8;
constexpr uint32_t kDirectoryBytesDefault = 1U << 20;
constexpr uint32_t kRingBytesDefault = 8U << 20;
constexpr uint32_t kRingBytesMin = 64U << 10;
constexpr uint32_t kRingBytesMax = 1U << 30;
constexpr uint32_t kRecordBytesMax = 1U << 20;  // of one record, header included
constexpr uint32_t kNameBytesMax = 512;
constexpr uint32_t kEventKindBytesMax = 64;
constexpr uint32_t kEventJsonBytesMax = 256U << 10;

// `bytes` rounded up to the alignment of records.
constexpr uint64_t padded(uint64_t bytes) {
  return (bytes + kRecordAlignment - 1) & ~uint64_t{kRecordAlignment - 1};
}

// Positions count bytes since the ring was made and never wrap; position % ring_bytes is the
// place. Writer: writes a record at `head`, then stores the new head with release order. Reader:
// loads head with acquire order, uses the records, then stores `tail`. tail <= head <=
// tail + ring_bytes always.
struct RingHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint32_t directory_bytes;
  uint32_t ring_bytes;
  uint64_t ring_id;  // random, made with the ring; distinguishes rings of one run
  int32_t pid;
  int32_t rank;         // from RANK and its kin; 0 where there is none
  int32_t world_size;   // 1 where there is none
  uint32_t header_crc;  // CRC-32C of all bytes before this field
  std::atomic<uint64_t> directory_used;
  std::atomic<uint64_t> head;
  std::atomic<uint64_t> tail;
  std::atomic<uint64_t> next_sequence;     // of the next record, dropped ones counted too
  std::atomic<uint64_t> dropped_records;   // the ring was full
  std::atomic<int64_t> last_step;          // -1 before the first
  std::atomic<int64_t> last_step_time_ns;  // wall clock
  std::atomic<uint32_t> closed;            // 1: the writer ended in good order
  std::atomic<uint32_t> overhead_ppm;      // measured cost, parts per million of step time
};

// Every record and every definition begins with this; `bytes` counts this header, the payload and
// padding to 8. The CRC is over everything after the `crc` field. A record never crosses the end
// of the ring: a kPadding record fills the rest before it. Of padding only the header counts, and
// its CRC covers no more; where fewer bytes than a header are left, only `bytes` and `crc` are
// there, and the CRC is over `bytes`.
struct RecordHeader {
  uint32_t bytes;
  uint32_t crc;
  uint64_t sequence;
  int64_t time_ns;  // wall clock
  int64_t step;     // -1: outside any step
  uint16_t type;    // RecordType
  uint8_t mode;     // Mode
  uint8_t reserved;
  uint32_t count;  // of items in the payload
};
static_assert(sizeof(RecordHeader) == 40);

enum class RecordType : uint16_t {
  kPadding = 0,
  kStats = 1,              // count × StatsItem
  kScalars = 2,            // count × ScalarItem
  kEvent = 3,              // EventItem, then the kind, then JSON text
  kHistogram = 4,          // HistogramItem, then count × HistogramBin
  kTensor = 5,             // TensorItem, then raw bytes: a piece of a tensor's values
  kCollectiveEntered = 6,  // CollectiveItem, then count × i64: sizes of its first input
  kCollectiveLeft = 7,     // CollectiveLeftItem
};

enum class Mode : uint8_t { kTrain = 0, kEval = 1, kPredict = 2, kGlobal = 3 };
constexpr uint8_t kModeCount = 4;

// What a definition names: what a tensor is in the job, and what collectives are told with.
enum class Kind : uint8_t {
  kWeight = 0,
  kGradient = 1,
  kActivation = 2,  // output of a module
  kInput = 3,       // input of a module
  kLoss = 4,
  kOptimizerState = 5,
  kScalar = 6,  // a named number: its definition has no shape
  kOther = 7,
  kGroup = 8,      // of processes: the framework's name of it
  kOperation = 9,  // "all_reduce", "send", …
  kCallSite = 10,  // FUNCTION, a newline, FILE; its one size is the line
};
constexpr uint8_t kKindCount = 8;             // those with values
constexpr uint8_t kDefinitionKindCount = 11;  // all

// A definition in the directory gives a number to a name: RecordHeader (type kDefinition,
// `sequence` = the id, counted from 0) + DefinitionItem + name bytes.
constexpr uint16_t kDefinitionType = 100;
struct DefinitionItem {
  uint8_t kind;
  uint8_t dtype;  // stats::DType
  uint8_t ndim;
  uint8_t reserved;
  uint32_t name_bytes;
  int64_t sizes[stats::kMaxDims];
};

struct StatsItem {
  uint32_t id;  // of a definition
  uint32_t flags;
  stats::TensorStats stats;
  // Of units (mark_units); `units` is 0 where none were looked at.
  uint32_t units;
  uint32_t units_dead;    // zero in all batches of the window
  uint32_t units_frozen;  // outside [low, high] in all batches of the window
  uint32_t unit_batches;  // batches in the window so far
  uint64_t outside;       // elements outside [low, high] in this batch
};
static_assert(sizeof(StatsItem) == 120);

struct ScalarItem {
  uint32_t id;
  uint32_t reserved;
  double value;
};

struct EventItem {
  uint32_t kind_bytes;
  uint32_t json_bytes;
};

struct HistogramItem {
  uint32_t id;
  uint32_t reserved;
};
struct HistogramBin {
  uint32_t bin;
  uint32_t reserved;
  uint64_t elements;
};

// A call of a collective or point-to-point operation; the ids are of definitions.
constexpr uint32_t kNoDefinition = 0xffffffff;
struct CollectiveItem {
  uint32_t group;
  uint32_t operation;
  uint32_t where;        // kNoDefinition: not known
  int32_t peer;          // global rank of root, source or destination; -1: there is none
  int64_t number;        // of the call within this process and group, from 0
  uint64_t bytes;        // of all inputs
  uint8_t dtype;         // stats::DType
  uint8_t asynchronous;  // 0 or 1
  uint16_t reserved;
  uint32_t reserved2;
};
static_assert(sizeof(CollectiveItem) == 40);

// The call with this number has returned; an asynchronous one was waited for.
struct CollectiveLeftItem {
  uint32_t group;
  uint32_t reserved;
  int64_t number;
};

struct TensorItem {
  uint32_t id;
  uint32_t reserved;
  uint64_t total_bytes;
  uint64_t offset_bytes;  // of this piece
  uint32_t piece_bytes;
  uint32_t reserved2;
};

}  // namespace paramedic::record
