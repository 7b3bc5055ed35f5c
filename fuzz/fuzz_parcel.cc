// Any bytes as a parcel of a node, its look, and a collector's receipt: refused, or values within
// the limits, whose names lead nowhere else.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "nodes/look.h"
#include "nodes/parcel.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paramedic;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto parcel = nodes::decode_parcel(bytes); parcel.ok()) {
    if (!nodes::is_plain_name(parcel->job) || !nodes::is_plain_name(parcel->node)) std::abort();
    if (parcel->pieces.size() > nodes::kPiecesMax) std::abort();
    for (const nodes::Piece& piece : parcel->pieces) {
      if (!nodes::is_segment_file(piece.file)) std::abort();
    }
    if (!nodes::decode_parcel(nodes::encode(*parcel)).ok()) std::abort();
  }
  if (const auto receipt = nodes::decode_receipt(bytes); receipt.ok()) {
    if (!nodes::decode_receipt(nodes::encode(*receipt)).ok()) std::abort();
  }
  if (const auto json = parse_json(bytes, "a look"); json.ok()) (void)nodes::Look::from_json(*json);
  return 0;
}
