#include "cluster/flight_dump.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "cluster/dump_reader.h"
#include "cluster/pickle.h"

namespace paramedic::cluster {
namespace {

namespace fs = std::filesystem;

constexpr int kFolderDepthMax = 8;
// Files that are read before any of them is passed on: what is held at once stays small.
constexpr size_t kFilesAtOnce = 32;
constexpr unsigned kThreadsMax = 16;

// The number after the last "rank" of the file's name, else its last number; -1 without one.
int32_t rank_of_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const auto number_at = [&](size_t begin) -> int32_t {
    int32_t value = -1;
    const auto result = std::from_chars(name.data() + begin, name.data() + name.size(), value);
    return result.ec == std::errc() && value <= kDumpRankMax ? value : -1;
  };
  size_t after_rank = name.rfind("rank");
  if (after_rank != std::string::npos) {
    after_rank = name.find_first_not_of("_-. ", after_rank + 4);
    const int32_t rank = after_rank == std::string::npos ? -1 : number_at(after_rank);
    if (rank >= 0) return rank;
  }
  const size_t end = name.find_last_of("0123456789");
  if (end == std::string::npos) return -1;
  const size_t before = name.find_last_not_of("0123456789", end);
  return number_at(before == std::string::npos ? 0 : before + 1);
}

// The files that words name, in their order.
class Files {
 public:
  Files(FileSystem& files, DumpProblems& problems) : files_(files), problems_(problems) {}

  Status add(const std::string& word) {
    std::error_code error;
    if (fs::is_directory(word, error)) {
      add_folder(word, 0);
    } else if (fs::exists(word, error)) {
      add_file(word);
    } else if (word.find_first_of("*?[") == std::string::npos || !add_pattern(word)) {
      return not_found(word + " does not exist");
    }
    return {};
  }

  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }

 private:
  void add_file(const std::string& path) {
    std::error_code error;
    // A pipe would be waited for.
    if (!fs::is_regular_file(path, error)) {
      problems_.add(path + " is no file");
    } else if (paths_.size() < kDumpFilesMax) {
      paths_.push_back(path);
    } else if (!std::exchange(is_full_, true)) {
      problems_.add(fmt::format("only the first {} files were read", kDumpFilesMax));
    }
  }

  void add_folder(const std::string& path, int depth) {
    const auto names = files_.list(path);
    if (!names.ok()) {
      problems_.add(names.status().message());
      return;
    }
    for (const std::string& name : *names) {
      const std::string child = path + "/" + name;
      std::error_code error;
      if (!fs::is_directory(child, error)) {
        add_file(child);
      } else if (depth < kFolderDepthMax) {
        add_folder(child, depth + 1);
      } else {
        problems_.add(fmt::format("{} lies too deep and was not read", child));
      }
      if (is_full_) return;
    }
  }

  bool add_pattern(const std::string& pattern) {
    glob_t found{};
    const bool any = ::glob(pattern.c_str(), 0, nullptr, &found) == 0 && found.gl_pathc > 0;
    for (size_t i = 0; any && i < found.gl_pathc && !is_full_; ++i) {
      std::error_code error;
      const std::string path = found.gl_pathv[i];
      fs::is_directory(path, error) ? add_folder(path, 0) : add_file(path);
    }
    ::globfree(&found);
    return any;
  }

  FileSystem& files_;
  DumpProblems& problems_;
  std::vector<std::string> paths_;
  bool is_full_ = false;
};

Result<FlightDump> read_dump(FileSystem& files, const std::string& path) {
  PARAMEDIC_ASSIGN(const uint64_t bytes, files.size(path));
  if (bytes > kDumpBytesMax) {
    return exhausted(fmt::format("{} has {} bytes, too many for a dump", path, bytes));
  }
  PARAMEDIC_ASSIGN(const std::string text, files.read(path));
  PARAMEDIC_ASSIGN(FlightDump dump, parse_flight_dump(as_bytes(text), path));
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) dump.written_ns = modified_ns(status);
  return dump;
}

using Read = std::vector<std::optional<Result<FlightDump>>>;

// The dumps of paths[begin ...], at most kFilesAtOnce of them, by all cores.
Read read_some(FileSystem& files, const std::vector<std::string>& paths, size_t begin) {
  Read read(std::min(kFilesAtOnce, paths.size() - begin));
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < read.size(); i = next++) {
      read[i].emplace(read_dump(files, paths[begin + i]));
    }
  };
  const size_t count = std::min<size_t>(
      read.size(), std::clamp(std::thread::hardware_concurrency(), 1U, kThreadsMax));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return read;
}

Result<FlightDump> read_values(Bytes bytes) {
  if (!looks_like_pickle(bytes)) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return DumpReader(JsonCursor(text)).read();
  }
  PARAMEDIC_ASSIGN(const PickleValues values, read_pickle(bytes));
  return DumpReader(PickleCursor(values)).read();
}

}  // namespace

Result<FlightDump> parse_flight_dump(Bytes bytes, const std::string& path) {
  const auto named = [&](const Status& why) {
    return Status(why.code(), fmt::format("{}: {}", path, why.message()), why.hint());
  };
  auto read = read_values(bytes);
  if (!read.ok()) return named(read.status());
  FlightDump dump = std::move(read).value();
  dump.path = path;
  if (dump.rank < 0) dump.rank = rank_of_name(path);
  if (dump.rank < 0) {
    return invalid_argument(path + ": neither the dump nor its name tells the rank",
                            "rename it so that it ends in the rank: dump_rank_3");
  }
  return dump;
}

Result<DumpProblems> read_flight_dumps(FileSystem& files, const std::vector<std::string>& paths,
                                       const std::function<void(const FlightDump&)>& take) {
  DumpProblems problems;
  Files found(files, problems);
  for (const std::string& path : paths) PARAMEDIC_TRY(found.add(path));
  std::map<int32_t, std::string> known;  // by rank
  for (size_t begin = 0; begin < found.paths().size(); begin += kFilesAtOnce) {
    for (const auto& dump : read_some(files, found.paths(), begin)) {
      if (!dump->ok()) {
        problems.add(dump->status().message());
        continue;
      }
      const FlightDump& one = dump->value();
      const auto [first, is_new] = known.try_emplace(one.rank, one.path);
      if (!is_new) {
        problems.add(fmt::format("{} is a second dump of rank {}, beside {}", one.path, one.rank,
                                 first->second));
        continue;
      }
      if (one.entries_left_out > 0) {
        problems.add(fmt::format("{}: {} of its entries were left out, they are too many", one.path,
                                 one.entries_left_out));
      }
      take(one);
    }
  }
  if (known.empty()) {
    return invalid_argument(
        problems.told.empty() ? "there is no dump of a flight recorder in " + paths.front()
                              : problems.told.front(),
        "set TORCH_FR_BUFFER_SIZE and TORCH_FR_DUMP_TEMP_FILE in the job, or use `paramedic run`");
  }
  return problems;
}

}  // namespace paramedic::cluster
