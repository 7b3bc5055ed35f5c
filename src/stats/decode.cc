#include "stats/decode.h"

#include "stats/element.h"

namespace paramedic::stats {
namespace {

template <typename Value>
ByteValues make_table(Value value) {
  ByteValues table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = value(static_cast<uint8_t>(byte));
  }
  return table;
}

}  // namespace

const ByteValues& byte_values(DType dtype) {
  static const ByteValues e4m3fn = make_table(f8e4m3fn_value);
  static const ByteValues e5m2 = make_table(f8e5m2_value);
  static const ByteValues int8 =
      make_table([](uint8_t byte) { return static_cast<float>(static_cast<int8_t>(byte)); });
  static const ByteValues uint8 = make_table([](uint8_t byte) { return static_cast<float>(byte); });
  static const ByteValues boolean =
      make_table([](uint8_t byte) { return byte != 0 ? 1.0F : 0.0F; });
  switch (dtype) {
    case DType::kFloat8E4m3fn:
      return e4m3fn;
    case DType::kFloat8E5m2:
      return e5m2;
    case DType::kInt8:
      return int8;
    case DType::kBool:
      return boolean;
    default:
      return uint8;
  }
}

}  // namespace paramedic::stats
