// Any bytes as a dump of a flight recorder, JSON or pickle: refused with a reason, or read into
// values within the limits.

#include <cstdint>
#include <cstdlib>

#include "cluster/flight_dump.h"
#include "cluster/pickle.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paramedic;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto value = cluster::parse_pickle(bytes); value.ok()) {
    if (!parse_json(to_text(*value), "what was read").ok()) std::abort();
  }
  const auto dump = cluster::parse_flight_dump(bytes, "dump_rank_3");
  if (dump.ok() ? dump->rank < 0 : dump.status().message().empty()) std::abort();
  return 0;
}
