#pragma once
// What is known already of logs that were read before, by their content: a file that was moved or
// copied is known too, one that has grown is not. One line each: key and JSON object. A cache that
// cannot be read is an empty one. Lookups from any number of threads; the rest from one.

#include <string>
#include <unordered_map>

#include "base/file.h"
#include "base/json.h"
#include "fleet/find.h"

namespace paramedic::fleet {

// Stands for the content of the job's files and for what this program knows of failures; "" where a
// file cannot be read. Reads all of a small file, both ends of a large one.
std::string content_key(const JobPath& job);

class Cache {
 public:
  static constexpr size_t kEntriesMax = 2'000'000;

  // `path` "": nothing is remembered.
  Cache(FileSystem& files, std::string path);

  // The entry of `key`, or null.
  [[nodiscard]] const std::string* find(const std::string& key) const;
  void add(const std::string& key, std::string entry);
  // Writes what is new, with what was there before.
  Status save();

 private:
  FileSystem& files_;
  const std::string path_;
  std::unordered_map<std::string, std::string> entries_;
  bool is_changed_ = false;
};

// $XDG_CACHE_HOME/paramedic/fleet.cache, or below ~/.cache; "" without a home.
std::string default_cache_path(const char* xdg_cache_home, const char* home);

}  // namespace paramedic::fleet
