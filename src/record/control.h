#pragma once
// Control messages: what the agent of a live run and the programs that talk to it say to each
// other over the unix socket in the run folder; docs/formats/control.md tells the same with an
// example. Only the bytes are here; supervise/control_server.h and control_client.h are the two
// sides. No state but the decoder's, which belongs to one stream and one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/json.h"

namespace paramedic::record {

constexpr const char* kControlSocketName = "control.sock";  // in the run folder
constexpr uint32_t kControlMagic = 0x43444d50;              // "PMDC"
constexpr uint16_t kControlVersion = 1;                     // a reader refuses a newer one
constexpr uint32_t kControlPayloadBytesMin = 2;             // "{}"
constexpr uint32_t kControlPayloadBytesMax = 64U << 10;

enum class ControlType : uint16_t {
  kHello = 1,  // version, pid: the first message of either side
  kFlush = 2,  // make what was captured up to now readable
  kDone = 3,   // last_step: everything that was asked for before this is done
  kError = 4,  // message: why not; the sender hangs up
  // Between a crashed process of the job, the agent, and who repairs it (docs/formats/control.md).
  kCrash = 5,    // what a process tells of its crash; to who looks, a crash that waits
  kRepair = 6,   // what shall be done; from a person to the agent, from the agent to the process
  kResumed = 7,  // the repair is in place and the job goes on
  kRefused = 8,  // reason: it is not, and the job waits as before
  kGone = 9,     // reason: nothing will be done, the process fails as it would have
  kLook = 10,    // what waits; with a question, to be answered from the crashed frame
  kView = 11,    // the answer to a question
};

// All numbers little-endian; the payload, JSON text of an object, follows.
struct ControlHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t type;
  uint32_t payload_bytes;
  uint32_t crc;  // CRC-32C of the bytes before this field, then of the payload
};
static_assert(sizeof(ControlHeader) == 16);

struct ControlMessage {
  ControlType type = ControlType::kHello;
  Json fields = Json::object();
};

ControlMessage hello_message(int pid);
ControlMessage flush_message();
ControlMessage done_message(int64_t last_step);  // -1: no step has ended yet
ControlMessage error_message(std::string_view text);

// The bytes of `message`; kInvalidArgument when its fields are no object or too long.
Result<std::string> encode_control(const ControlMessage& message);

// Turns a stream of bytes, cut anywhere, into messages. Never holds more than one message, and
// reserves nothing for a length that it was only told.
class ControlDecoder {
 public:
  // Takes the next bytes of the stream and passes each message that they complete to `take`.
  // kUnsupported: a newer version or a type that this one does not know; kCorruption: anything
  // else that is no message, with its place in the stream. An error is final: where the next
  // message begins is not known.
  Status feed(Bytes bytes, const std::function<void(const ControlMessage&)>& take);

 private:
  bool fill(Bytes& bytes);
  [[nodiscard]] Status check(const ControlHeader& header) const;
  [[nodiscard]] Result<ControlMessage> decode(const ControlHeader& header) const;
  Status advance(const std::function<void(const ControlMessage&)>& take);
  [[nodiscard]] Status damaged(const std::string& what) const;

  std::string partial_;  // the message that is arriving
  size_t wanted_ = sizeof(ControlHeader);
  uint64_t offset_ = 0;  // of `partial_` in the stream
  Status failure_;
};

}  // namespace paramedic::record
