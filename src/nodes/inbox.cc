#include "nodes/inbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "nodes/look.h"
#include "store/run.h"

namespace paramedic::nodes {
namespace {

// Adds to the end of the file, whose size is `size`: all of it or nothing.
Status append_to(const std::string& path, uint64_t size, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno_error("cannot write", path, errno);
  Status status;
  uint64_t at = size;
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status = errno_error("cannot write", path, errno);
      (void)::ftruncate(fd, static_cast<off_t>(size));
      break;
    }
    at += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  ::close(fd);
  return status;
}

Status list_files(const std::string& part, std::map<std::string, uint64_t>& sizes) {
  FileSystem& files = posix_file_system();
  const auto tables = files.list(part);
  if (!tables.ok())
    return tables.status().code() == StatusCode::kNotFound ? Status() : tables.status();
  for (const std::string& table : *tables) {
    const auto names = files.list(part + "/" + table);
    if (!names.ok()) continue;  // a file
    for (const std::string& name : *names) {
      const std::string file = table + "/" + name;
      if (!is_segment_file(file)) continue;
      PARAMEDIC_ASSIGN(sizes[file], files.size(part + "/" + file));
    }
  }
  return {};
}

bool has_ended(const store::RunInfo& info) {
  return info.status != "running" && info.status != "paused";
}

}  // namespace

// A job that is over takes nodes that it knows, which may still have something to tell, and no
// others: those belong to another job of the same name.
bool Inbox::comes_too_late(const Parcel& parcel) const {
  FileSystem& files = posix_file_system();
  if (files.exists(part_of(parcel))) return false;
  const std::string path = dir_ + "/" + parcel.job + "/run.json";
  const auto text = files.read(path);
  if (!text.ok()) return false;
  const auto json = parse_json(*text, path);
  if (!json.ok()) return true;
  const auto info = store::RunInfo::from_json(*json);
  return !info.ok() || has_ended(*info);
}

Inbox::Node* Inbox::node_of(const Parcel& parcel, Receipt& receipt) {
  const std::scoped_lock lock(mutex_);
  const std::string name = parcel.job + "/" + parcel.node;
  if (const auto known = nodes_.find(name); known != nodes_.end()) return &known->second;
  if (!is_plain_name(parcel.job) || !is_plain_name(parcel.node)) {
    receipt.refused = "the job or the node has a name that cannot be that of a folder";
  } else if (comes_too_late(parcel)) {
    receipt.refused =
        fmt::format("the job {} has ended already: a new one needs another --name", parcel.job);
  } else if (!jobs_.contains(parcel.job) && jobs_.size() >= limits_.jobs_max) {
    receipt.refused = fmt::format("the collector has {} jobs already", jobs_.size());
  } else if (jobs_[parcel.job].nodes >= limits_.nodes_max) {
    receipt.refused = fmt::format("the job {} has {} nodes already", parcel.job, limits_.nodes_max);
  } else {
    Job& job = jobs_[parcel.job];
    ++job.nodes;
    return &nodes_.try_emplace(name, job).first->second;
  }
  return nullptr;
}

Result<bool> Inbox::append_pieces(const Parcel& parcel, Node& node, Receipt& receipt) {
  FileSystem& files = posix_file_system();
  const std::string part = part_of(parcel);
  for (const Piece& piece : parcel.pieces) {
    if (!is_segment_file(piece.file)) continue;
    const auto known = node.sizes.find(piece.file);
    const uint64_t size = known == node.sizes.end() ? 0 : known->second;
    if (piece.offset > size) return false;
    if (piece.offset + piece.bytes.size() <= size) continue;  // it was sent twice
    if (known == node.sizes.end()) {
      if (node.sizes.size() >= limits_.files_max) {
        receipt.refused = fmt::format("the node has {} files already", node.sizes.size());
        return false;
      }
      PARAMEDIC_TRY(files.make_folders(part + "/" + piece.file.substr(0, piece.file.find('/'))));
    }
    const std::string_view fresh = std::string_view(piece.bytes).substr(size - piece.offset);
    if (node.job.bytes + fresh.size() > limits_.job_bytes_max) {
      receipt.refused = fmt::format("the job has reached {} bytes here", limits_.job_bytes_max);
      return false;
    }
    PARAMEDIC_TRY(append_to(part + "/" + piece.file, size, fresh));
    node.job.bytes += fresh.size();
    node.sizes[piece.file] = size + fresh.size();
  }
  return true;
}

Result<Receipt> Inbox::take(const Parcel& parcel) {
  Receipt receipt;
  Node* node = node_of(parcel, receipt);
  if (node == nullptr) return receipt;
  const std::scoped_lock lock(node->mutex);
  const std::string part = part_of(parcel);
  if (!node->is_listed) {
    PARAMEDIC_TRY(posix_file_system().make_folders(part));
    PARAMEDIC_TRY(list_files(part, node->sizes));
    node->is_listed = true;
  }
  PARAMEDIC_ASSIGN(const bool fitted, append_pieces(parcel, *node, receipt));
  if (!receipt.refused.empty()) return receipt;
  if (!fitted || parcel.asks_sizes) {
    receipt.has_sizes = true;
    receipt.sizes = node->sizes;
  }
  if (!fitted) return receipt;
  // The rows first, so that the look does not promise what is not there.
  if (!parcel.info.empty()) {
    PARAMEDIC_TRY(posix_file_system().write_atomically(part + "/run.json", as_bytes(parcel.info)));
  }
  if (!parcel.look.empty()) PARAMEDIC_TRY(write_look(part, parcel.look));
  return receipt;
}

}  // namespace paramedic::nodes
