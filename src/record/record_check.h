#pragma once
// Checks of single records and definitions on their way out of a ring. Pure functions over bytes;
// `why` texts are empty when all is well.

#include <cstdint>
#include <string>

#include "record/ring_reader.h"

namespace paramedic::record {

// What stands at the start of some bytes.
struct Found {
  enum What { kRecord, kPadding, kCut, kDamaged };
  What what = kDamaged;
  uint64_t bytes = 0;  // of the record
  std::string why;     // of kDamaged
};

// `rest` starts at a record; `ends_ring`: its last byte is the ring's last one. kCut: the record
// goes on behind `rest`. Checks length and CRC.
Found find_record(Bytes rest, bool ends_ring);

// `bytes` is one whole record (aligned to 8) of a ring with `definitions` definitions.
std::string check_record(Bytes bytes, uint64_t definitions, Record* record);

// `bytes` is one whole record of the directory that must define `id`.
std::string check_definition(Bytes bytes, uint64_t id, Definition* definition);

}  // namespace paramedic::record
