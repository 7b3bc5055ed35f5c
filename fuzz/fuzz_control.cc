// Control messages from any bytes: the same messages and the same error however the bytes are cut,
// and what is given out can be sent again. The first byte chooses where to cut, and whether
// checksums are put right, so that what lies behind them is reached.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "record/control.h"

namespace {

using namespace paramedic::record;
using paramedic::as_bytes;
using paramedic::crc32c;

constexpr size_t kCheckedBytes = offsetof(ControlHeader, crc);
// Writing JSON out recurses, so only what is as flat as our own messages is written out here.
constexpr std::ptrdiff_t kNestingMax = 100;

void check(bool condition) {
  if (!condition) std::abort();
}

void put_checksums_right(std::string& bytes) {
  ControlHeader header{};
  for (size_t at = 0; bytes.size() - at >= sizeof header;) {
    std::memcpy(&header, bytes.data() + at, sizeof header);
    const size_t rest = bytes.size() - at - sizeof header;
    if (header.payload_bytes > rest) return;
    header.crc = crc32c(bytes.data() + at + sizeof header, header.payload_bytes,
                        crc32c(&header, kCheckedBytes));
    std::memcpy(bytes.data() + at, &header, sizeof header);
    at += sizeof header + header.payload_bytes;
  }
}

struct Decoded {
  std::vector<ControlMessage> messages;
  std::string error;
};

Decoded decode(std::string_view bytes, size_t piece) {
  ControlDecoder decoder;
  Decoded decoded;
  do {
    const std::string_view next = bytes.substr(0, piece);
    bytes.remove_prefix(next.size());
    const auto status = decoder.feed(as_bytes(next), [&](const ControlMessage& message) {
      check(message.fields.is_object());
      decoded.messages.push_back(message);
    });
    decoded.error = status.message();
    check(status.ok() == decoded.error.empty());
  } while (!bytes.empty());
  return decoded;
}

void check_same(const ControlMessage& a, const ControlMessage& b) {
  check(a.type == b.type && a.fields.size() == b.fields.size());
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const uint8_t choice = data[0];
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((choice & 1U) != 0) put_checksums_right(bytes);
  const Decoded whole = decode(bytes, std::string::npos);
  const Decoded cut = decode(bytes, 1 + choice / 2);
  check(whole.error == cut.error && whole.messages.size() == cut.messages.size());
  const bool is_flat =
      std::count(bytes.begin(), bytes.end(), '[') + std::count(bytes.begin(), bytes.end(), '{') <
      kNestingMax;
  for (size_t i = 0; i < whole.messages.size(); i++) {
    check_same(whole.messages[i], cut.messages[i]);
    if (!is_flat) continue;
    const auto again = encode_control(whole.messages[i]);
    if (!again.ok()) continue;  // escapes may make it longer than the limit
    const Decoded round = decode(*again, std::string::npos);
    check(round.messages.size() == 1);
    check_same(round.messages[0], whole.messages[i]);
  }
  return 0;
}
