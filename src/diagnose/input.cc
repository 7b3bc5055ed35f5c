#include "diagnose/input.h"

#include <fcntl.h>
#include <glob.h>
#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "diagnose/compressed.h"

namespace paramedic::diagnose {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthMax = 8;
constexpr size_t kFilesMax = 20000;

class FileSource : public ByteSource {
 public:
  FileSource(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~FileSource() override {
    if (fd_ != STDIN_FILENO) close(fd_);
  }
  Result<size_t> read(std::span<char> to) override {
    for (;;) {
      const ssize_t bytes = ::read(fd_, to.data(), to.size());
      if (bytes >= 0) return static_cast<size_t>(bytes);
      if (errno != EINTR) return errno_error("cannot read", path_, errno);
    }
  }

 private:
  int fd_;
  std::string path_;
};

// Gives the bytes that were read to tell the compression, then the rest.
class Prepended : public ByteSource {
 public:
  Prepended(std::string first, std::unique_ptr<ByteSource> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}
  Result<size_t> read(std::span<char> to) override {
    if (given_ < first_.size()) {
      const size_t bytes = std::min(to.size(), first_.size() - given_);
      std::memcpy(to.data(), first_.data() + given_, bytes);
      given_ += bytes;
      return bytes;
    }
    return rest_ == nullptr ? size_t{0} : rest_->read(to);
  }

 private:
  std::string first_;
  size_t given_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

Status search(const fs::path& folder, int depth, Inputs& inputs);

// A run of Paramedic's own: its tables are not logs. What the job was doing stands in what it
// printed, so that is read before its errors. One process's output may be that of a launcher with
// all its ranks: then the name of its log tells nothing.
Status search_run(const fs::path& logs, int depth, Inputs& inputs) {
  const size_t first = inputs.found.size();
  PARAMEDIC_TRY(search(logs, depth, inputs));
  const auto begin = inputs.found.begin() + static_cast<ptrdiff_t>(first);
  std::stable_partition(begin, inputs.found.end(),
                        [](const Input& input) { return input.path.ends_with(".out"); });
  const bool is_one = std::all_of(begin, inputs.found.end(),
                                  [&](const Input& input) { return input.rank == begin->rank; });
  if (is_one) std::for_each(begin, inputs.found.end(), [](Input& input) { input.rank = -1; });
  return {};
}

Status search(const fs::path& folder, int depth, Inputs& inputs) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (entries.size() == kFilesMax) break;
    entries.push_back(at->path());
  }
  if (error) {
    return errno_error("cannot read the folder", folder.string(), error.value());
  }
  std::sort(entries.begin(), entries.end());
  if (fs::exists(folder / "run.json", error)) {
    const fs::path logs = folder / "logs";
    return fs::is_directory(logs, error) ? search_run(logs, depth + 1, inputs) : Status();
  }
  for (const fs::path& entry : entries) {
    if (fs::is_directory(entry, error)) {
      if (depth < kDepthMax) PARAMEDIC_TRY(search(entry, depth + 1, inputs));
      continue;
    }
    if (!fs::is_regular_file(entry, error) || !is_log_name(entry.filename().string())) continue;
    if (inputs.found.size() == kFilesMax) {
      return exhausted("diagnose: more than 20000 files in " + folder.string());
    }
    if (access(entry.c_str(), R_OK) != 0) {
      inputs.skipped.push_back(entry.string() + ": " + std::strerror(errno));
      continue;
    }
    inputs.found.push_back({entry.string(), rank_of_path(entry.string())});
  }
  return {};
}

Status expand(const std::string& pattern, Inputs& inputs) {
  glob_t matches{};
  const int code = glob(pattern.c_str(), 0, nullptr, &matches);
  std::vector<std::string> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  globfree(&matches);
  if (code == GLOB_NOSPACE) return exhausted("diagnose: no memory to expand " + pattern);
  if (paths.empty()) {
    return not_found("diagnose: there is no file or folder " + pattern);
  }
  PARAMEDIC_ASSIGN(const Inputs more, find_inputs(paths));
  inputs.found.insert(inputs.found.end(), more.found.begin(), more.found.end());
  inputs.skipped.insert(inputs.skipped.end(), more.skipped.begin(), more.skipped.end());
  return {};
}

}  // namespace

bool is_log_name(const std::string& name) {
  static constexpr std::array<std::string_view, 23> kForeign = {
      ".py",  ".pyc",  ".so",     ".pt",      ".pth", ".ckpt", ".safetensors", ".bin",
      ".npy", ".npz",  ".arrows", ".parquet", ".h5",  ".png",  ".jpg",         ".zip",
      ".tar", ".toml", ".yaml",   ".yml",     ".md",  ".html", ".times"};
  if (name.starts_with('.')) return false;
  return std::none_of(kForeign.begin(), kForeign.end(),
                      [&](std::string_view end) { return name.ends_with(end); });
}

int rank_of_path(const std::string& path) {
  static const RE2 kName(R"((?:^|[^a-z])(?:rank|worker|proc)[-_.]?(\d{1,6})[^/]*$)");
  static const RE2 kElastic(R"(/(\d{1,6})/(?:std(?:out|err)(?:\.log)?|error\.json)$)");
  int rank = -1;
  if (RE2::PartialMatch(path, kName, &rank) || RE2::PartialMatch(path, kElastic, &rank)) {
    return rank;
  }
  return -1;
}

Result<Inputs> find_inputs(const std::vector<std::string>& paths) {
  Inputs inputs;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path == "-") {
      inputs.found.push_back({path});
    } else if (fs::is_directory(path, error)) {
      PARAMEDIC_TRY(search(path, 0, inputs));
    } else if (fs::exists(path, error)) {
      inputs.found.push_back({path, rank_of_path(path)});
    } else if (path.find_first_of("*?[") != std::string::npos) {
      PARAMEDIC_TRY(expand(path, inputs));
    } else {
      return not_found("diagnose: there is no file or folder " + path);
    }
  }
  return inputs;
}

namespace {

// torchelastic keeps the traceback of a process as one string of a JSON object.
std::optional<std::string> elastic_traceback(const std::string& path) {
  constexpr uint64_t kBytesMax = uint64_t{16} << 20U;
  if (!path.ends_with("/error.json") && path != "error.json") return std::nullopt;
  FileSystem& files = posix_file_system();
  const auto bytes = files.size(path);
  if (!bytes.ok() || *bytes > kBytesMax) return std::nullopt;
  const auto text = files.read(path);
  const auto json = text.ok() ? parse_json(*text, path) : Result<Json>(text.status());
  if (!json.ok() || !json->is_object()) return std::nullopt;
  const auto message = json->find("message");
  if (message == json->end()) return std::nullopt;
  if (message->is_string()) return message->get<std::string>() + "\n";
  const auto extra = message->is_object() ? message->find("extraInfo") : message->end();
  if (extra == message->end()) return string_or(*message, "message", "") + "\n";
  return string_or(*extra, "py_callstack", string_or(*message, "message", "")) + "\n";
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_input(const std::string& path) {
  if (auto traceback = elastic_traceback(path)) return text_source(std::move(*traceback));
  const int fd = path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error("cannot open", path, errno);
  auto file = std::make_unique<FileSource>(fd, path);
  constexpr size_t kMagicBytes = 8;
  std::string first(kMagicBytes, '\0');
  size_t have = 0;
  while (have < kMagicBytes) {
    PARAMEDIC_ASSIGN(const size_t bytes,
                     file->read(std::span(first.data() + have, kMagicBytes - have)));
    if (bytes == 0) break;
    have += bytes;
  }
  first.resize(have);
  const Compression compression = compression_of(first);
  auto whole = std::make_unique<Prepended>(std::move(first), std::move(file));
  return decompress(compression, std::move(whole), path);
}

std::unique_ptr<ByteSource> text_source(std::string text) {
  return std::make_unique<Prepended>(std::move(text), nullptr);
}

}  // namespace paramedic::diagnose
