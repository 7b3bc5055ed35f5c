#include <arrow/buffer.h>
#include <arrow/config.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "nodes/bucket.h"

namespace paramedic::nodes {
namespace {

constexpr int64_t kObjectBytesMax = 32 << 20;
constexpr size_t kObjectsMax = 1'000'000;

Status from_arrow(const arrow::Status& status, const std::string& what) {
  return io_error(what + ": " + status.message());
}

class ArrowBucket : public Bucket {
 public:
  ArrowBucket(std::shared_ptr<arrow::fs::FileSystem> files, std::string root)
      : files_(std::move(files)), root_(std::move(root)) {}

  ArrowBucket(const ArrowBucket&) = delete;
  ArrowBucket& operator=(const ArrowBucket&) = delete;
  // The threads of Amazon's library have to end before the program does.
  ~ArrowBucket() override {
    files_.reset();
    arrow::fs::EnsureFinalized();
  }

  Status put(const std::string& name, std::string_view bytes) override {
    const arrow::Status status = [&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(const auto stream, files_->OpenOutputStream(path(name)));
      ARROW_RETURN_NOT_OK(stream->Write(bytes.data(), static_cast<int64_t>(bytes.size())));
      return stream->Close();
    }();
    return status.ok() ? Status() : from_arrow(status, "cannot write " + path(name));
  }

  Result<std::string> get(const std::string& name) override {
    const auto bytes = [&]() -> arrow::Result<std::string> {
      ARROW_ASSIGN_OR_RAISE(const auto file, files_->OpenInputFile(path(name)));
      ARROW_ASSIGN_OR_RAISE(const int64_t size, file->GetSize());
      ARROW_ASSIGN_OR_RAISE(const auto buffer, file->ReadAt(0, std::min(size, kObjectBytesMax)));
      return buffer->ToString();
    }();
    if (bytes.ok()) return *bytes;
    // Arrow says ENOENT in a detail of its own.
    const auto info = files_->GetFileInfo(path(name));
    if (info.ok() && info->type() == arrow::fs::FileType::NotFound) return not_found(path(name));
    return from_arrow(bytes.status(), "cannot read " + path(name));
  }

  Status remove(const std::string& name) override {
    const arrow::Status status = files_->DeleteFile(path(name));
    return status.ok() ? Status() : from_arrow(status, "cannot remove " + path(name));
  }

  Result<std::vector<std::string>> list(const std::string& folder) override {
    arrow::fs::FileSelector selector;
    selector.base_dir = folder.empty() ? root_ : path(folder);
    selector.recursive = true;
    selector.allow_not_found = true;
    const auto infos = files_->GetFileInfo(selector);
    if (!infos.ok()) return from_arrow(infos.status(), "cannot list " + selector.base_dir);
    std::vector<std::string> names;
    for (const auto& info : *infos) {
      if (!info.IsFile() || names.size() >= kObjectsMax) continue;
      names.push_back(info.path().substr(root_.size() + 1));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return root_ + "/" + name; }

  // As Arrow gives it.
  std::shared_ptr<arrow::fs::FileSystem> files_;
  const std::string root_;
};

// S3 is a library of its own beside Arrow's, 17 MB of it, which only this needs: it is loaded when
// it is asked for.
Status load_s3() {
  Dl_info facts = {};
  const auto* symbol = reinterpret_cast<const void*>(&arrow::GetBuildInfo);
  if (::dladdr(symbol, &facts) == 0 || facts.dli_fname == nullptr) {
    return unsupported("Arrow's library cannot be found");
  }
  std::string library = facts.dli_fname;
  const size_t at = library.rfind("libarrow.so");
  const arrow::Status loaded =
      at == std::string::npos
          ? arrow::Status::Invalid("Arrow is part of " + library)
          : arrow::fs::LoadFileSystemFactories(library.insert(at + 8, "_s3").c_str());
  if (loaded.ok()) return {};
  return unsupported("this Paramedic comes without S3: " + loaded.message(),
                     "mount the bucket on all nodes, or take another folder that they share");
}

}  // namespace

Result<std::unique_ptr<Bucket>> open_bucket(const std::string& url) {
  PARAMEDIC_TRY(load_s3());
  std::string root;
  auto files = arrow::fs::FileSystemFromUri(url, &root);
  if (!files.ok()) {
    return invalid_argument(fmt::format("cannot use {}: {}", url, files.status().message()),
                            "s3://BUCKET/PATH?region=…; with another server than Amazon's "
                            "endpoint_override=HOST:PORT and scheme=http or https");
  }
  while (!root.empty() && root.back() == '/') root.pop_back();
  // Whatever else keeps us from an answer may pass; a bucket that is not there is a wrong name.
  const std::string bucket = root.substr(0, root.find('/'));
  const auto found = (*files)->GetFileInfo(bucket);
  if (found.ok() && found->type() == arrow::fs::FileType::NotFound) {
    files->reset();
    arrow::fs::EnsureFinalized();
    return invalid_argument(fmt::format("there is no bucket {} where {} points", bucket, url),
                            "make it first, or mend the name");
  }
  return std::unique_ptr<Bucket>(std::make_unique<ArrowBucket>(*std::move(files), root));
}

}  // namespace paramedic::nodes
