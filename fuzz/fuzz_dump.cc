// Any bytes as a dump of a flight recorder, JSON or pickle: refused with a reason, or read into
// values within the limits, which are then compared with those of a rank that tells the same and
// with those of one that tells only the half of it.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cluster/call_verdict.h"
#include "cluster/flight_dump.h"
#include "cluster/pickle.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paramedic;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto values = cluster::read_pickle(bytes); values.ok()) {
    const auto json = cluster::to_json(*values);
    if (json.ok() && !parse_json(to_text(*json), "what was read").ok()) std::abort();
  }
  const auto dump = cluster::parse_flight_dump(bytes, "dump_rank_3");
  if (dump.ok() ? dump->rank < 0 : dump.status().message().empty()) std::abort();
  // Our own reader of JSON takes what the strict one takes, but for what lies too deep.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto strict = parse_json(text, "the bytes");
  const bool is_dump = strict.ok() && strict->is_object() &&
                       (strict->contains("entries") || strict->contains("pg_status"));
  if (is_dump && !dump.ok() && dump.status().message().find("deep") == std::string::npos) {
    std::abort();
  }
  if (!dump.ok()) return 0;
  cluster::CallBook book;
  book.add(*dump);
  for (const int32_t rank : {4, 5}) {
    cluster::FlightDump other = *dump;
    other.rank = rank;
    if (rank == 5) other.entries.resize(other.entries.size() / 2);
    book.add(other);
  }
  book.settle();
  for (const auto& finding : cluster::judge_calls(book, "dumps").findings) {
    if (finding.id.empty() || finding.message.empty()) std::abort();
  }
  return 0;
}
