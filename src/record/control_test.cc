#include "record/control.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "base/crc32c.h"

namespace paramedic::record {
namespace {

std::string encoded(const ControlMessage& message) { return encode_control(message).value(); }

// The example of docs/formats/control.md.
std::string example() {
  return encoded(hello_message(4242)) + encoded(flush_message()) + encoded(done_message(40));
}

struct Decoded {
  std::vector<ControlMessage> messages;
  Status status;
};

bool operator==(const Decoded& a, const Decoded& b) {
  if (a.messages.size() != b.messages.size() || a.status.code() != b.status.code() ||
      a.status.message() != b.status.message()) {
    return false;
  }
  for (size_t i = 0; i < a.messages.size(); i++) {
    if (a.messages[i].type != b.messages[i].type) return false;
    if (a.messages[i].fields != b.messages[i].fields) return false;
  }
  return true;
}

// Feeds `bytes` in pieces that end at `cuts`, which rise.
Decoded decode(std::string_view bytes, const std::vector<size_t>& cuts = {}) {
  ControlDecoder decoder;
  Decoded decoded;
  const auto take = [&](const ControlMessage& m) { decoded.messages.push_back(m); };
  size_t from = 0;
  for (const size_t cut : cuts) {
    decoded.status = decoder.feed(as_bytes(bytes.substr(from, cut - from)), take);
    from = cut;
  }
  decoded.status = decoder.feed(as_bytes(bytes.substr(from)), take);
  return decoded;
}

// A message as `encode_control` makes it, with any header and payload and the right checksum.
std::string forged(ControlHeader header, std::string_view payload) {
  header.crc =
      crc32c(payload.data(), payload.size(), crc32c(&header, offsetof(ControlHeader, crc)));
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes.append(payload);
}

TEST(Control, what_is_encoded_is_decoded) {
  const Decoded decoded = decode(example() + encoded(error_message("the disk is full")));
  ASSERT_TRUE(decoded.status.ok()) << decoded.status.message();
  ASSERT_EQ(decoded.messages.size(), 4U);
  EXPECT_EQ(decoded.messages[0].type, ControlType::kHello);
  EXPECT_EQ(integer_or(decoded.messages[0].fields, "version", 0), kControlVersion);
  EXPECT_EQ(integer_or(decoded.messages[0].fields, "pid", 0), 4242);
  EXPECT_EQ(decoded.messages[1].type, ControlType::kFlush);
  EXPECT_EQ(decoded.messages[2].type, ControlType::kDone);
  EXPECT_EQ(integer_or(decoded.messages[2].fields, "last_step", 0), 40);
  EXPECT_EQ(decoded.messages[3].type, ControlType::kError);
  EXPECT_EQ(string_or(decoded.messages[3].fields, "message", ""), "the disk is full");
}

TEST(Control, any_split_of_the_bytes_gives_the_same_messages) {
  const std::string bytes = example();
  const Decoded whole = decode(bytes);
  for (size_t first = 0; first <= bytes.size(); first++) {
    for (size_t second = first; second <= bytes.size(); second++) {
      ASSERT_EQ(decode(bytes, {first, second}), whole) << first << " " << second;
    }
  }
}

TEST(Control, any_split_of_damaged_bytes_gives_the_same_messages_and_error) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; trial++) {
    std::string bytes = example();
    for (int flips = 1 + trial % 3; flips > 0; flips--) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    const Decoded whole = decode(bytes);
    std::vector<size_t> cuts;
    for (size_t at = 0; at < bytes.size(); at += 1 + random() % 20) cuts.push_back(at);
    ASSERT_EQ(decode(bytes, cuts), whole) << "trial " << trial;
  }
}

TEST(Control, every_changed_byte_is_refused_with_its_place) {
  const std::string before = encoded(hello_message(1));
  const std::string message = encoded(done_message(40));
  const std::string place = "at byte " + std::to_string(before.size());
  for (size_t at = 0; at < message.size(); at++) {
    for (int value = 1; value < 256; value++) {
      std::string changed = message;
      changed[at] = static_cast<char>(changed[at] ^ value);
      // A length that became longer only shows once that many bytes have come.
      const bool is_length = at >= 8 && at < 12;
      changed.append(is_length ? kControlPayloadBytesMax : 0, ' ');
      const Decoded decoded = decode(before + changed);
      ASSERT_EQ(decoded.messages.size(), 1U) << "byte " << at;
      if (decoded.status.code() == StatusCode::kUnsupported) {
        ASSERT_TRUE(at == 4 || at == 5) << "byte " << at;
      } else {
        ASSERT_EQ(decoded.status.code(), StatusCode::kCorruption) << "byte " << at;
        ASSERT_NE(decoded.status.message().find(place), std::string::npos);
      }
    }
  }
}

TEST(Control, newer_version_is_unsupported_whatever_follows) {
  const auto version = static_cast<uint16_t>(kControlVersion + 1);
  const Decoded decoded = decode(forged({kControlMagic, version, 1, UINT32_MAX, 0}, "anything"));
  EXPECT_EQ(decoded.status.code(), StatusCode::kUnsupported);
  EXPECT_NE(decoded.status.message().find("version 2"), std::string::npos);
  EXPECT_NE(decoded.status.hint(), "");
}

TEST(Control, type_that_this_version_does_not_know_is_unsupported) {
  for (const uint16_t type : std::vector<uint16_t>{0, 12, 0xffff}) {
    const Decoded decoded = decode(forged({kControlMagic, kControlVersion, type, 2, 0}, "{}"));
    EXPECT_EQ(decoded.status.code(), StatusCode::kUnsupported) << type;
  }
}

TEST(Control, length_beyond_the_limit_is_refused_by_the_header_alone) {
  for (const uint32_t length : {0U, 1U, kControlPayloadBytesMax + 1, UINT32_MAX}) {
    const Decoded decoded = decode(forged({kControlMagic, kControlVersion, 1, length, 0}, ""));
    EXPECT_EQ(decoded.status.code(), StatusCode::kCorruption) << length;
  }
}

TEST(Control, payload_that_is_no_json_object_is_refused) {
  for (const std::string_view payload : {"[]", "12", "{\"a\":", "{}x", "\xff\xff"}) {
    const auto bytes = static_cast<uint32_t>(payload.size());
    const Decoded decoded = decode(forged({kControlMagic, kControlVersion, 1, bytes, 0}, payload));
    EXPECT_EQ(decoded.status.code(), StatusCode::kCorruption) << payload;
  }
}

TEST(Control, error_is_final) {
  ControlDecoder decoder;
  int taken = 0;
  const auto take = [&](const ControlMessage&) { taken++; };
  EXPECT_FALSE(decoder.feed(as_bytes("this is no control message"), take).ok());
  EXPECT_FALSE(decoder.feed(as_bytes(example()), take).ok());
  EXPECT_EQ(taken, 0);
}

TEST(Control, longest_message_passes_and_a_longer_one_is_not_encoded) {
  const size_t around = to_text(error_message("").fields).size();
  const std::string longest(kControlPayloadBytesMax - around, 'x');
  const Decoded decoded = decode(encoded(error_message(longest)));
  ASSERT_EQ(decoded.messages.size(), 1U);
  EXPECT_EQ(string_or(decoded.messages[0].fields, "message", ""), longest);
  EXPECT_EQ(encode_control(error_message(longest + "x")).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(encode_control({ControlType::kDone, Json::array()}).status().code(),
            StatusCode::kInvalidArgument);
}

// Lines as xxd prints them: "00000000: 504d 4443 …  …", address, colon, up to 16 bytes, text.
TEST(Control, example_of_the_format_document_is_what_is_encoded) {
  std::ifstream document(PARAMEDIC_SOURCE_DIR "/docs/formats/control.md");
  ASSERT_TRUE(document.is_open());
  std::string bytes;
  for (std::string line; std::getline(document, line);) {
    if (line.size() < 12 || line[8] != ':') continue;
    ASSERT_EQ(std::stoul(line.substr(0, 8), nullptr, 16), bytes.size()) << line;
    for (size_t at = 10; at + 1 < line.size() && line[at] != ' '; at += 2) {
      bytes.push_back(static_cast<char>(std::stoul(line.substr(at, 2), nullptr, 16)));
      if (at + 2 < line.size() && line[at + 2] == ' ') at++;
    }
  }
  EXPECT_EQ(bytes, example());
}

}  // namespace
}  // namespace paramedic::record
