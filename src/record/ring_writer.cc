#include "record/ring_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/crc32c.h"

namespace paramedic::record {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr int kFallocateTriesMax = 100;  // of EINTR
constexpr uint32_t kCrcStart = offsetof(RecordHeader, crc) + sizeof(RecordHeader::crc);

bool is_plain(std::string_view run_id) {
  return !run_id.empty() && run_id.size() <= kRunIdBytesMax && run_id[0] != '.' &&
         std::all_of(run_id.begin(), run_id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

uint64_t random_id(const Clock& clock) {
  uint64_t id = 0;
  if (::getrandom(&id, sizeof id, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof id)) return id;
  // Early in the boot of a machine there is no randomness yet; the file's name has the pid too.
  return static_cast<uint64_t>(clock.wall_ns()) * 0x9e3779b97f4a7c15;
}

std::string hex(uint64_t number) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

Status allocate(int fd, const std::string& path, uint64_t bytes) {
  int error = EINTR;
  for (int i = 0; i < kFallocateTriesMax && error == EINTR; i++) {
    error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  }
  if (error == 0) return {};
  return errno_error("cannot make the ring (" + std::to_string(bytes >> 10) + " KiB)", path, error);
}

std::string_view cut_name(std::string_view name) {
  if (name.size() <= kNameBytesMax) return name;
  size_t bytes = kNameBytesMax;
  while (bytes > 0 && (static_cast<unsigned char>(name[bytes]) & 0xc0) == 0x80) bytes--;
  return name.substr(0, bytes);
}

// Copies header, parts and padding to `to`, then puts the CRC in.
void write_record(std::byte* to, RecordHeader header, std::span<const Bytes> parts) {
  header.crc = 0;
  std::memcpy(to, &header, sizeof header);
  uint64_t used = sizeof header;
  for (const Bytes part : parts) {
    if (!part.empty()) std::memcpy(to + used, part.data(), part.size());
    used += part.size();
  }
  std::memset(to + used, 0, header.bytes - used);
  const uint32_t crc = crc32c(to + kCrcStart, header.bytes - kCrcStart);
  std::memcpy(to + offsetof(RecordHeader, crc), &crc, sizeof crc);
}

// A file that goes away again unless it was finished.
class UnfinishedFile {
 public:
  UnfinishedFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;
  ~UnfinishedFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    if (!finished_) ::unlink(path_.c_str());
  }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  void finish() { finished_ = true; }

 private:
  int fd_;
  std::string path_;
  bool finished_ = false;
};

}  // namespace

Result<std::unique_ptr<RingWriter>> RingWriter::create(const RingOptions& options) {
  if (!is_plain(options.run_id)) {
    return invalid_argument("a run id may have letters, digits, '.', '_' and '-' only: \"" +
                            options.run_id.substr(0, kRunIdBytesMax) + "\"");
  }
  std::unique_ptr<RingWriter> writer(new RingWriter);
  writer->clock_ = options.clock != nullptr ? options.clock : &real_clock();
  writer->ring_bytes_ =
      std::bit_ceil(std::clamp<uint32_t>(options.ring_bytes, kRingBytesMin, kRingBytesMax));
  writer->directory_bytes_ = static_cast<uint32_t>(
      padded(std::clamp<uint32_t>(options.directory_bytes, kPageBytes, kRingBytesMax)));

  const uint64_t ring_id = options.ring_id.value_or(random_id(*writer->clock_));
  writer->owner_pid_ = static_cast<int32_t>(::getpid());
  const int32_t pid = options.pid.value_or(writer->owner_pid_);
  writer->path_ = options.directory + "/paramedic-" + options.run_id + "-" + std::to_string(pid) +
                  "-" + hex(ring_id) + ".ring";

  // A reader looks for names that end in ".ring" and so never meets a half-made one.
  const std::string unfinished = writer->path_ + ".new";
  UnfinishedFile file(
      ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600),
      unfinished);
  if (file.fd() < 0) return errno_error("cannot create the ring", unfinished, errno);
  const uint64_t bytes = uint64_t{kHeaderBytes} + writer->directory_bytes_ + writer->ring_bytes_;
  PARAMEDIC_TRY(allocate(file.fd(), unfinished, bytes));
  PARAMEDIC_TRY(writer->map(file.fd()));
  writer->write_header(options, ring_id, pid);
  if (::access(writer->path_.c_str(), F_OK) == 0) {
    return errno_error("cannot create the ring", writer->path_, EEXIST);
  }
  if (::rename(unfinished.c_str(), writer->path_.c_str()) != 0) {
    return errno_error("cannot create the ring", writer->path_, errno);
  }
  file.finish();
  return writer;
}

RingWriter::~RingWriter() {
  if (map_ != nullptr) {
    ::munmap(map_, uint64_t{kHeaderBytes} + directory_bytes_ + ring_bytes_);
  }
  if (alive_ != nullptr) ::munmap(alive_, kPageBytes);
}

Status RingWriter::map(int fd) {
  const uint64_t bytes = uint64_t{kHeaderBytes} + directory_bytes_ + ring_bytes_;
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return errno_error("cannot map the ring", path_, errno);
  map_ = static_cast<std::byte*>(map);
  header_ = reinterpret_cast<RingHeader*>(map_);

  void* page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return errno_error("cannot map a page for", path_, errno);
  alive_ = static_cast<uint64_t*>(page);
  if (::madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kPageBytes);
    alive_ = nullptr;  // an old kernel: compare pids instead
    return {};
  }
  *alive_ = 1;
  return {};
}

void RingWriter::write_header(const RingOptions& options, uint64_t ring_id, int32_t pid) {
  header_->magic = kRingMagic;
  header_->version = kRingVersion;
  header_->header_bytes = kHeaderBytes;
  header_->directory_bytes = directory_bytes_;
  header_->ring_bytes = ring_bytes_;
  header_->ring_id = ring_id;
  header_->pid = pid;
  header_->rank = std::max(options.rank, 0);
  header_->world_size = std::max(options.world_size, 1);
  header_->last_step.store(-1, std::memory_order_relaxed);
  header_->header_crc = crc32c(header_, offsetof(RingHeader, header_crc));
}

std::optional<uint32_t> RingWriter::define(const DefinitionSpec& spec) {
  const std::string_view name = cut_name(spec.name);
  DefinitionItem item{};
  item.kind = static_cast<uint8_t>(spec.kind);
  item.dtype = static_cast<uint8_t>(spec.dtype);
  const size_t dims = std::min<size_t>(spec.sizes.size(), stats::kMaxDims);
  item.ndim = static_cast<uint8_t>(dims);
  std::copy_n(spec.sizes.begin(), dims, item.sizes);
  item.name_bytes = static_cast<uint32_t>(name.size());

  if (!owned_by_this_process()) return std::nullopt;
  const TryLockGuard guard(lock_);
  if (!guard.held()) return std::nullopt;
  RecordHeader header{};
  header.bytes = static_cast<uint32_t>(padded(sizeof header + sizeof item + name.size()));
  if (closed_ || header.bytes > directory_bytes_ - directory_used_) return std::nullopt;
  header.sequence = definitions_;
  header.time_ns = clock_->wall_ns();
  header.step = -1;
  header.type = kDefinitionType;
  header.mode = static_cast<uint8_t>(Mode::kGlobal);
  header.count = 1;
  const std::array<Bytes, 2> parts = {std::as_bytes(std::span(&item, 1)), as_bytes(name)};
  write_record(map_ + kHeaderBytes + directory_used_, header, parts);
  directory_used_ += header.bytes;
  header_->directory_used.store(directory_used_, std::memory_order_release);
  return definitions_++;
}

bool RingWriter::append(const RecordSpec& spec, std::span<const Bytes> parts) {
  if (!owned_by_this_process()) return false;
  uint64_t bytes = sizeof(RecordHeader);
  for (const Bytes part : parts) bytes += part.size();
  bytes = padded(bytes);

  const TryLockGuard guard(lock_);
  if (!guard.held() || bytes > record_bytes_max() || closed_) {
    count_drop();
    return false;
  }
  // A record that does not fit before the end of the ring starts at the beginning again.
  const uint64_t rest = ring_bytes_ - (head_ & (ring_bytes_ - 1));
  const uint64_t padding = rest < bytes ? rest : 0;
  if (padding + bytes > free_bytes()) {
    count_drop();
    return false;
  }
  if (padding > 0) write_padding(rest);

  RecordHeader header{};
  header.bytes = static_cast<uint32_t>(bytes);
  header.sequence = header_->next_sequence.fetch_add(1, std::memory_order_relaxed);
  header.time_ns = clock_->wall_ns();
  header.step = std::max<int64_t>(spec.step, -1);
  header.type = static_cast<uint16_t>(spec.type);
  header.mode = static_cast<uint8_t>(spec.mode);
  header.count = spec.count;
  write_record(ring_start() + ((head_ + padding) & (ring_bytes_ - 1)), header, parts);
  // Padding and record are committed together: killed before this line, neither is there.
  head_ += padding + bytes;
  header_->head.store(head_, std::memory_order_release);
  return true;
}

void RingWriter::write_padding(uint64_t rest) {
  RecordHeader header{};
  header.bytes = static_cast<uint32_t>(rest);
  std::byte* to = ring_start() + (head_ & (ring_bytes_ - 1));
  if (rest < sizeof header) {
    header.crc = crc32c(&header.bytes, sizeof header.bytes);
    std::memcpy(to, &header, kCrcStart);
    return;
  }
  header.step = -1;
  header.type = static_cast<uint16_t>(RecordType::kPadding);
  header.crc =
      crc32c(reinterpret_cast<const std::byte*>(&header) + kCrcStart, sizeof header - kCrcStart);
  std::memcpy(to, &header, sizeof header);
}

void RingWriter::count_drop() {
  if (!owned_by_this_process()) return;
  // The sequence number is used up, so that a reader sees from the gap where something is missing.
  header_->next_sequence.fetch_add(1, std::memory_order_relaxed);
  header_->dropped_records.fetch_add(1, std::memory_order_relaxed);
}

void RingWriter::step_done(int64_t step, uint32_t overhead_ppm) {
  if (!owned_by_this_process()) return;
  header_->last_step.store(step, std::memory_order_relaxed);
  header_->last_step_time_ns.store(clock_->wall_ns(), std::memory_order_relaxed);
  header_->overhead_ppm.store(overhead_ppm, std::memory_order_relaxed);
}

void RingWriter::close() {
  if (!owned_by_this_process()) return;
  const TryLockGuard guard(lock_);
  // Without the lock a thread is stuck in a record: that is no good order.
  if (!guard.held()) return;
  closed_ = true;
  header_->closed.store(1, std::memory_order_release);
}

bool RingWriter::owned_by_this_process() const {
  if (alive_ != nullptr) return *static_cast<volatile const uint64_t*>(alive_) == 1;
  return ::getpid() == owner_pid_;
}

uint32_t RingWriter::record_bytes_max() const { return std::min(kRecordBytesMax, ring_bytes_ / 4); }

uint64_t RingWriter::free_bytes() const {
  const uint64_t tail = header_->tail.load(std::memory_order_acquire);
  const uint64_t head = header_->head.load(std::memory_order_relaxed);
  // A tail that cannot be leaves no room rather than room that is not there.
  return tail <= head && head - tail <= ring_bytes_ ? ring_bytes_ - (head - tail) : 0;
}

uint32_t RingWriter::definitions_max() const {
  return directory_bytes_ / static_cast<uint32_t>(sizeof(RecordHeader) + sizeof(DefinitionItem));
}

uint64_t RingWriter::dropped_records() const {
  return header_->dropped_records.load(std::memory_order_relaxed);
}

uint32_t RingWriter::overhead_ppm() const {
  return header_->overhead_ppm.load(std::memory_order_relaxed);
}

std::byte* RingWriter::ring_start() const { return map_ + kHeaderBytes + directory_bytes_; }

}  // namespace paramedic::record
