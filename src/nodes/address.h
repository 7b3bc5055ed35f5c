#pragma once
// Where a collector is: a port of a machine, or a folder that all nodes share. And the secret that
// both sides know. Plain values.

#include <string>

#include "base/status.h"

namespace paramedic::nodes {

inline constexpr const char* kTokenVariable = "PARAMEDIC_COLLECTOR_TOKEN";

struct Address {
  std::string folder;  // absolute; "" when it is a port
  std::string host;
  int port = 0;
  bool has_tls = false;

  [[nodiscard]] std::string text() const;
};

// "grpc://HOST:PORT", "grpc+tls://HOST:PORT", or a folder: "file:///DIR", or a path with a '/'.
Result<Address> parse_address(const std::string& text);

// From `file`, or where that is "" from `variable`, the value of PARAMEDIC_COLLECTOR_TOKEN or
// nullptr. An error when it is missing or shorter than 8 characters.
Result<std::string> read_token(const std::string& file, const char* variable);

// In time that does not tell how much of it is right.
bool is_same_secret(const std::string& a, const std::string& b);

}  // namespace paramedic::nodes
