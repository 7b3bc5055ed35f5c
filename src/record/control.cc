#include "record/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace paramedic::record {
namespace {

constexpr size_t kCheckedHeaderBytes = offsetof(ControlHeader, crc);

uint32_t checksum(const ControlHeader& header, std::string_view payload) {
  return crc32c(payload.data(), payload.size(), crc32c(&header, kCheckedHeaderBytes));
}

bool is_known(uint16_t type) {
  return type >= static_cast<uint16_t>(ControlType::kHello) &&
         type <= static_cast<uint16_t>(ControlType::kView);
}

}  // namespace

ControlMessage hello_message(int pid) {
  ControlMessage message{ControlType::kHello};
  message.fields["version"] = kControlVersion;
  message.fields["pid"] = pid;
  return message;
}

ControlMessage flush_message() { return {ControlType::kFlush}; }

ControlMessage done_message(int64_t last_step) {
  ControlMessage message{ControlType::kDone};
  message.fields["last_step"] = last_step;
  return message;
}

ControlMessage error_message(std::string_view text) {
  ControlMessage message{ControlType::kError};
  message.fields["message"] = text;
  return message;
}

Result<std::string> encode_control(const ControlMessage& message) {
  if (!message.fields.is_object()) {
    return invalid_argument("the fields of a control message are no JSON object");
  }
  const std::string payload = to_text(message.fields);
  if (payload.size() > kControlPayloadBytesMax) {
    return invalid_argument(fmt::format("a control message of {} bytes is too long, at most {}",
                                        payload.size(), kControlPayloadBytesMax));
  }
  ControlHeader header{kControlMagic, kControlVersion, static_cast<uint16_t>(message.type),
                       static_cast<uint32_t>(payload.size()), 0};
  header.crc = checksum(header, payload);
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes + payload;
}

Status ControlDecoder::feed(Bytes bytes, const std::function<void(const ControlMessage&)>& take) {
  while (failure_.ok() && fill(bytes)) failure_ = advance(take);
  return failure_;
}

// Moves what is still wanted out of `bytes`; whether that was all of it.
bool ControlDecoder::fill(Bytes& bytes) {
  const size_t count = std::min(wanted_ - partial_.size(), bytes.size());
  partial_.append(reinterpret_cast<const char*>(bytes.data()), count);
  bytes = bytes.subspan(count);
  return partial_.size() == wanted_;
}

// The header is here, or the whole message.
Status ControlDecoder::advance(const std::function<void(const ControlMessage&)>& take) {
  ControlHeader header{};
  std::memcpy(&header, partial_.data(), sizeof header);
  if (wanted_ == sizeof header) {
    PARAMEDIC_TRY(check(header));
    wanted_ += header.payload_bytes;
    return {};
  }
  PARAMEDIC_ASSIGN(const ControlMessage message, decode(header));
  offset_ += wanted_;
  wanted_ = sizeof header;
  partial_.clear();
  take(message);
  return {};
}

// The version comes before all that another version may do otherwise.
Status ControlDecoder::check(const ControlHeader& header) const {
  if (header.magic != kControlMagic) return damaged("it does not begin with \"PMDC\"");
  if (header.version > kControlVersion) {
    return unsupported(fmt::format("control message of version {}, this program reads up to {}",
                                   header.version, kControlVersion),
                       "use the same version of paramedic on both sides");
  }
  if (header.version == 0) return damaged("its version is 0");
  if (header.payload_bytes < kControlPayloadBytesMin ||
      header.payload_bytes > kControlPayloadBytesMax) {
    return damaged(fmt::format("its payload is {} bytes long, not {} to {}", header.payload_bytes,
                               kControlPayloadBytesMin, kControlPayloadBytesMax));
  }
  return {};
}

Result<ControlMessage> ControlDecoder::decode(const ControlHeader& header) const {
  const std::string_view payload = std::string_view(partial_).substr(sizeof header);
  if (header.crc != checksum(header, payload)) return damaged("its checksum is wrong");
  if (!is_known(header.type)) {
    return unsupported(
        fmt::format("control message of the unknown type {} at byte {}", header.type, offset_),
        "use the same version of paramedic on both sides");
  }
  auto fields = parse_json(payload, "its payload");
  if (!fields.ok()) return damaged(fields.status().message());
  if (!fields->is_object()) return damaged("its payload is no JSON object");
  return ControlMessage{static_cast<ControlType>(header.type), std::move(fields).value()};
}

Status ControlDecoder::damaged(const std::string& what) const {
  return corruption(fmt::format("damaged control message at byte {}: {}", offset_, what));
}

}  // namespace paramedic::record
