#include "fleet/cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/test_folder.h"

namespace paramedic::fleet {
namespace {

JobPath log_at(const std::string& path) { return {path, "log", false, {{path, -1}}}; }

TEST(Cache, the_same_content_has_the_same_key_wherever_it_lies) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/a", "step 1\n");
  write_file(folder.path() + "/b", "step 1\n");
  write_file(folder.path() + "/c", "step 1\nstep 2\n");
  const std::string key = content_key(log_at(folder.path() + "/a"));
  EXPECT_EQ(key.size(), 16U);
  EXPECT_EQ(key, content_key(log_at(folder.path() + "/b")));
  EXPECT_NE(key, content_key(log_at(folder.path() + "/c")));
  EXPECT_EQ(content_key(log_at(folder.path() + "/nothing")), "");
}

TEST(Cache, a_change_in_the_middle_of_a_large_file_is_seen_by_its_time) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/large";
  std::string text(size_t{1} << 20, 'x');
  write_file(path, text);
  const std::string key = content_key(log_at(path));
  text[text.size() / 2] = 'y';
  write_file(path, text);
  namespace fs = std::filesystem;
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(2));
  EXPECT_NE(key, content_key(log_at(path)));
}

TEST(Cache, entries_are_found_again_after_they_were_saved) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/deep/fleet.cache";
  {
    Cache cache(posix_file_system(), path);
    EXPECT_EQ(cache.find("0123456789abcdef"), nullptr);
    cache.add("0123456789abcdef", R"({"owner":"ada"})");
    cache.add("", "not kept");
    ASSERT_TRUE(cache.save().ok());
  }
  const Cache cache(posix_file_system(), path);
  ASSERT_NE(cache.find("0123456789abcdef"), nullptr);
  EXPECT_EQ(*cache.find("0123456789abcdef"), R"({"owner":"ada"})");
}

TEST(Cache, that_cannot_be_read_is_empty) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/cache", std::string("\0\xff no cache\n\n", 13));
  const Cache cache(posix_file_system(), folder.path() + "/cache");
  EXPECT_EQ(cache.find("0123456789abcdef"), nullptr);
}

TEST(Cache, lies_where_caches_lie) {
  EXPECT_EQ(default_cache_path("/x", "/home/ada"), "/x/paramedic/fleet.cache");
  EXPECT_EQ(default_cache_path(nullptr, "/home/ada"), "/home/ada/.cache/paramedic/fleet.cache");
  EXPECT_EQ(default_cache_path("", nullptr), "");
}

}  // namespace
}  // namespace paramedic::fleet
