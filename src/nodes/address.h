#pragma once
// Where a collector is: a port of a machine, a folder that all nodes share, or a bucket. And the
// secret that both sides of a port know. Plain values.

#include <string>

#include "base/status.h"

namespace paramedic::nodes {

inline constexpr const char* kTokenVariable = "PARAMEDIC_COLLECTOR_TOKEN";

struct Address {
  std::string folder;  // absolute; "" when it is something else
  std::string bucket;  // "s3://BUCKET/PATH?…"; "" when it is something else
  std::string host;
  int port = 0;
  bool has_tls = false;

  [[nodiscard]] bool is_port() const { return folder.empty() && bucket.empty(); }
  [[nodiscard]] std::string text() const;
};

// "grpc://HOST:PORT", "grpc+tls://HOST:PORT", "s3://BUCKET/PATH", or a folder: "file:///DIR", or a
// path with a '/'.
Result<Address> parse_address(const std::string& text);

// From `file`, or where that is "" from `variable`, the value of PARAMEDIC_COLLECTOR_TOKEN or
// nullptr. An error when it is missing or shorter than 8 characters.
Result<std::string> read_token(const std::string& file, const char* variable);

// A file in PEM: "CERTIFICATE" or "PRIVATE KEY" has to be the `kind` of one of its blocks. An error
// when there is none: what reads it later would only say that it cannot connect.
Result<std::string> read_pem(const std::string& file, const std::string& kind);

// In time that does not tell how much of it is right.
bool is_same_secret(const std::string& a, const std::string& b);

}  // namespace paramedic::nodes
