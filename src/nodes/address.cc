#include "nodes/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "base/file.h"

namespace paramedic::nodes {
namespace {

constexpr size_t kTokenBytesMin = 8;
constexpr size_t kTokenBytesMax = 4096;

Status no_address(const std::string& text) {
  return invalid_argument(
      fmt::format("'{}' is no address of a collector", text),
      "grpc://HOST:PORT, grpc+tls://HOST:PORT, s3://BUCKET/PATH, or a folder that all nodes share, "
      "as /shared/runs");
}

Result<Address> bucket_address(const std::string& text) {
  const std::string_view rest = std::string_view(text).substr(std::string_view("s3://").size());
  const std::string_view name = rest.substr(0, rest.find_first_of("/?"));
  if (name.find('@') != std::string_view::npos) {
    return invalid_argument("the address of the bucket has a key in it, which everybody can read",
                            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile, as the AWS "
                            "command line has them");
  }
  if (name.empty() || text.find_first_of(" \n") != std::string::npos) return no_address(text);
  Address address;
  address.bucket = text;
  return address;
}

Result<Address> folder_address(const std::string& path, const std::string& text) {
  if (path.empty()) return no_address(text);
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return no_address(text);
  Address address;
  address.folder = absolute.lexically_normal().string();
  while (address.folder.size() > 1 && address.folder.back() == '/') address.folder.pop_back();
  return address;
}

}  // namespace

std::string Address::text() const {
  if (!folder.empty()) return folder;
  if (!bucket.empty()) return bucket;
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", has_tls ? "grpc+tls" : "grpc", is_v6 ? "[" : "", host,
                     is_v6 ? "]" : "", port);
}

Result<Address> parse_address(const std::string& text) {
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string::npos) {
    if (text.find('/') == std::string::npos) return no_address(text);
    return folder_address(text, text);
  }
  const std::string scheme = text.substr(0, scheme_end);
  const std::string rest = text.substr(scheme_end + 3);
  if (scheme == "s3") return bucket_address(text);
  if (scheme == "file") return folder_address(rest, text);
  if (scheme != "grpc" && scheme != "grpc+tcp" && scheme != "grpc+tls") return no_address(text);
  const size_t colon = rest.rfind(':');
  if (colon == std::string::npos || colon == 0) return no_address(text);
  Address address;
  address.has_tls = scheme == "grpc+tls";
  address.host = rest.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  const char* end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data() + colon + 1, end, address.port);
  if (error != std::errc{} || stop != end || address.port < 0 || address.port > 65535) {
    return no_address(text);
  }
  return address;
}

Result<std::string> read_token(const std::string& file, const char* variable) {
  std::string token = variable == nullptr ? "" : variable;
  if (!file.empty()) {
    PARAMEDIC_ASSIGN(token, posix_file_system().read(file));
  }
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) {
    token.pop_back();
  }
  const bool is_printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; });
  if (token.size() >= kTokenBytesMin && token.size() <= kTokenBytesMax && is_printable) {
    return token;
  }
  const std::string hint = fmt::format(
      "the same secret on all nodes, in {} or in a file: head -c 24 /dev/urandom | base64",
      kTokenVariable);
  if (token.empty()) return invalid_argument("the collector's token is missing", hint);
  return invalid_argument(
      fmt::format("the collector's token has to have {} to {} characters without spaces",
                  kTokenBytesMin, kTokenBytesMax),
      hint);
}

Result<std::string> read_pem(const std::string& file, const std::string& kind) {
  PARAMEDIC_ASSIGN(std::string text, posix_file_system().read(file));
  // "BEGIN RSA PRIVATE KEY" is one too.
  const size_t begin = text.find("-----BEGIN ");
  if (begin == std::string::npos || text.find(kind + "-----", begin) == std::string::npos) {
    return invalid_argument(fmt::format("{} has no {} in PEM", file, kind),
                            fmt::format("the file has a line \"-----BEGIN {}-----\"", kind));
  }
  return text;
}

bool is_same_secret(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

}  // namespace paramedic::nodes
