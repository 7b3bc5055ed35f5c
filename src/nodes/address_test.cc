#include "nodes/address.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"

namespace paramedic::nodes {
namespace {

TEST(Address, a_port_and_a_folder_are_told_apart) {
  const Address port = parse_address("grpc://head:7071").value();
  EXPECT_EQ(port.host, "head");
  EXPECT_EQ(port.port, 7071);
  EXPECT_FALSE(port.has_tls);
  EXPECT_TRUE(port.folder.empty());
  EXPECT_TRUE(parse_address("grpc+tls://head:1").value().has_tls);
  EXPECT_EQ(parse_address("grpc://[::1]:5").value().host, "::1");
  EXPECT_EQ(parse_address("grpc://[::1]:5").value().text(), "grpc://[::1]:5");
  EXPECT_EQ(parse_address("/shared/runs/").value().folder, "/shared/runs");
  EXPECT_EQ(parse_address("file:///shared/runs").value().folder, "/shared/runs");
}

TEST(Address, what_is_neither_is_refused) {
  for (const char* text : {"", "head", "head:7071", "grpc://head", "grpc://:1", "grpc://h:x",
                           "grpc://h:99999", "grpc://h:-1", "http://h:1", "file://"}) {
    EXPECT_FALSE(parse_address(text).ok()) << text;
  }
}

TEST(Token, comes_from_a_file_or_the_variable_and_is_long_enough) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/token";
  ASSERT_TRUE(posix_file_system().write_atomically(file, as_bytes("from-the-file\n")).ok());
  EXPECT_EQ(read_token(file, "from-the-variable").value(), "from-the-file");
  EXPECT_EQ(read_token("", "from-the-variable").value(), "from-the-variable");
  EXPECT_FALSE(read_token("", "").ok());
  EXPECT_FALSE(read_token("", "short").ok());
  EXPECT_FALSE(read_token("", "with a space inside").ok());
  EXPECT_FALSE(read_token(folder.path() + "/none", "from-the-variable").ok());
}

TEST(Token, differs_in_any_byte) {
  EXPECT_TRUE(is_same_secret("abcdefgh", "abcdefgh"));
  EXPECT_FALSE(is_same_secret("abcdefgh", "abcdefgx"));
  EXPECT_FALSE(is_same_secret("abcdefgh", "abcdefg"));
}

TEST(Pem, is_asked_for_what_is_needed_of_it) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/file.pem";
  const auto is_one = [&](const std::string& text, const char* kind) {
    EXPECT_TRUE(posix_file_system().write_atomically(file, as_bytes(text)).ok());
    return read_pem(file, kind).ok();
  };
  EXPECT_TRUE(is_one("# of us\n-----BEGIN CERTIFICATE-----\nMII\n", "CERTIFICATE"));
  EXPECT_TRUE(is_one("-----BEGIN RSA PRIVATE KEY-----\nMII\n", "PRIVATE KEY"));
  EXPECT_FALSE(is_one("-----BEGIN PRIVATE KEY-----\nMII\n", "CERTIFICATE"));
  EXPECT_FALSE(is_one("0\x82", "CERTIFICATE"));
  EXPECT_FALSE(read_pem(folder.path() + "/none", "CERTIFICATE").ok());
}

}  // namespace
}  // namespace paramedic::nodes
