#include "record/ring_reader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/crc32c.h"
#include "record/record_check.h"

namespace paramedic::record {
namespace {

// One read from the file; larger than any record, so that a record is read at most twice.
constexpr uint64_t kChunkBytes = 2 * uint64_t{kRecordBytesMax};

}  // namespace

Result<std::unique_ptr<RingReader>> RingReader::open(const std::string& path) {
  // O_NONBLOCK: a FIFO under this name must not hold us up.
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno_error("cannot open the ring", path, errno);
  return adopt(fd, path);
}

Result<std::unique_ptr<RingReader>> RingReader::adopt(int fd, const std::string& name) {
  std::unique_ptr<RingReader> reader(new RingReader(fd, name));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return exhausted("the ring " + name + " is drained by another process");
    return errno_error("cannot lock the ring", name, errno);
  }
  PARAMEDIC_TRY(reader->map_and_check_header());
  return reader;
}

RingReader::~RingReader() {
  if (header_ != nullptr) ::munmap(header_, kHeaderBytes);
  ::close(fd_);  // gives the lock back too
}

Status RingReader::map_and_check_header() {
  struct stat info{};
  if (::fstat(fd_, &info) != 0) return errno_error("cannot look at the ring", path_, errno);
  if (!S_ISREG(info.st_mode)) return corruption(path_ + " is not a ring: not a regular file");
  // Somebody else could cut the file while we look into its mapped header.
  if (info.st_uid != ::geteuid() && ::geteuid() != 0) {
    return io_error("the ring " + path_ + " belongs to user " + std::to_string(info.st_uid));
  }
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  if (file_bytes < kHeaderBytes) {
    return corruption(path_ + " is not a ring: it has " + std::to_string(file_bytes) + " bytes");
  }
  void* map = ::mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (map == MAP_FAILED) return errno_error("cannot map the ring", path_, errno);
  header_ = static_cast<RingHeader*>(map);

  if (header_->magic != kRingMagic) return corruption(path_ + " is not a ring: no magic number");
  if (header_->version > kRingVersion) {
    return unsupported(path_ + " is a ring of version " + std::to_string(header_->version) +
                           ", this program reads up to " + std::to_string(kRingVersion),
                       "use the paramedic that the job used, or a newer one");
  }
  if (header_->header_crc != crc32c(header_, offsetof(RingHeader, header_crc))) {
    return damaged("header checksum mismatch", 0);
  }
  directory_bytes_ = header_->directory_bytes;
  ring_bytes_ = header_->ring_bytes;
  if (header_->version == 0 || header_->header_bytes != kHeaderBytes ||
      directory_bytes_ % kRecordAlignment != 0 || directory_bytes_ > kRingBytesMax ||
      ring_bytes_ < kRingBytesMin || ring_bytes_ > kRingBytesMax ||
      !std::has_single_bit(ring_bytes_) || header_->rank < 0 || header_->world_size < 1) {
    return damaged("a number in the header is out of range", 0);
  }
  if (file_bytes < uint64_t{kHeaderBytes} + directory_bytes_ + ring_bytes_) {
    return damaged("the file is cut: it has " + std::to_string(file_bytes) + " bytes", file_bytes);
  }
  fixed_.ring_id = header_->ring_id;
  fixed_.pid = header_->pid;
  fixed_.rank = header_->rank;
  fixed_.world_size = header_->world_size;
  position_ = header_->tail.load(std::memory_order_acquire);
  uint64_t head = 0;
  return check_limits(&head);
}

Status RingReader::check_limits(uint64_t* head) {
  *head = header_->head.load(std::memory_order_acquire);
  if (position_ % kRecordAlignment != 0 || *head % kRecordAlignment != 0 || position_ > *head ||
      *head - position_ > ring_bytes_) {
    return damaged("positions out of order: read up to " + std::to_string(position_) +
                       ", written up to " + std::to_string(*head),
                   0);
  }
  return {};
}

Result<uint64_t> RingReader::read(const std::function<void(const Record&)>& on_record) {
  uint64_t head = 0;
  PARAMEDIC_TRY(check_limits(&head));
  // The directory is read after the head: it then holds every definition that records below the
  // head speak of.
  const Status directory = read_directory();
  const uint64_t ring_start = uint64_t{kHeaderBytes} + directory_bytes_;
  uint64_t records = 0;
  while (position_ < head) {
    const uint64_t place = position_ & (ring_bytes_ - 1);
    const uint64_t to_end = ring_bytes_ - place;
    const uint64_t chunk = std::min({head - position_, to_end, kChunkBytes});
    Status status = read_bytes(ring_start + place, chunk);
    uint64_t used = 0;
    if (status.ok()) {
      auto parsed = parse_chunk(chunk, chunk == to_end, on_record, &records);
      if (parsed.ok()) {
        used = parsed.value();
      } else {
        status = parsed.status();
      }
    }
    position_ += used;
    if (status.ok() && used == 0) status = damaged("a record has no end", position_);
    if (!status.ok()) {
      // Where the damaged record ends is not known: go on behind all that is there.
      skipped_bytes_ += head - position_;
      position_ = head;
      return status;
    }
  }
  if (!directory.ok()) return directory;
  return records;
}

// Passes on the records at the start of the buffer, `chunk_bytes` of them; `reaches_end`: the end
// of the ring is the end of the chunk. Returns how many bytes were used: all but a record that the
// chunk cuts. After damage `position_` stands at the damaged record.
Result<uint64_t> RingReader::parse_chunk(uint64_t chunk_bytes, bool reaches_end,
                                         const std::function<void(const Record&)>& on_record,
                                         uint64_t* records) {
  const Bytes chunk = std::as_bytes(std::span(buffer_)).first(chunk_bytes);
  uint64_t used = 0;
  while (used < chunk_bytes) {
    const Bytes rest = chunk.subspan(used);
    const Found found = find_record(rest, reaches_end);
    if (found.what == Found::kCut) break;
    if (found.what == Found::kPadding) return chunk_bytes;
    std::string why = found.why;
    Record record;
    if (found.what == Found::kRecord) {
      why = check_record(rest.first(found.bytes), definitions_.size(), &record);
      if (why.empty() && record.sequence < next_sequence_) why = "sequence number goes back";
    }
    if (!why.empty()) {
      position_ += used;
      return damaged(why, position_);
    }
    next_sequence_ = record.sequence + 1;
    on_record(record);
    ++*records;
    used += found.bytes;
  }
  return used;
}

Status RingReader::read_directory() {
  if (directory_damaged_) return {};  // reported once
  const uint64_t used = header_->directory_used.load(std::memory_order_acquire);
  if (used == directory_position_) return {};
  directory_damaged_ = true;  // unless all goes well
  if (used > directory_bytes_ || used < directory_position_ || used % kRecordAlignment != 0) {
    return damaged("the directory's size is out of range: " + std::to_string(used), kHeaderBytes);
  }
  const uint64_t bytes = used - directory_position_;
  PARAMEDIC_TRY(read_bytes(kHeaderBytes + directory_position_, bytes));
  Bytes rest = std::as_bytes(std::span(buffer_)).first(bytes);
  while (!rest.empty()) {
    const Found found = find_record(rest, false);
    std::string why = found.what == Found::kRecord ? "" : "not a definition: " + found.why;
    Definition definition;
    if (why.empty()) {
      why = check_definition(rest.first(found.bytes), definitions_.size(), &definition);
    }
    if (!why.empty()) return damaged(why, kHeaderBytes + directory_position_);
    definitions_.push_back(std::move(definition));
    directory_position_ += found.bytes;
    rest = rest.subspan(found.bytes);
  }
  directory_damaged_ = false;
  return {};
}

// By pread and not from a mapping: what is checked is a copy that nobody can change any more, and
// a file that was cut answers with fewer bytes instead of a SIGBUS.
Status RingReader::read_bytes(uint64_t offset, uint64_t bytes) {
  buffer_.resize(std::max<uint64_t>(buffer_.size(), (bytes + 7) / 8));
  auto* to = reinterpret_cast<std::byte*>(buffer_.data());
  uint64_t got = 0;
  while (got < bytes) {
    const ssize_t some = ::pread(fd_, to + got, bytes - got, static_cast<off_t>(offset + got));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return errno_error("cannot read the ring", path_, errno);
    if (some == 0) return damaged("the file was cut", offset + got);
    got += static_cast<uint64_t>(some);
  }
  return {};
}

void RingReader::acknowledge() { header_->tail.store(position_, std::memory_order_release); }

RingState RingReader::state() const {
  RingState state = fixed_;
  state.closed = header_->closed.load(std::memory_order_acquire) == 1;
  state.last_step = header_->last_step.load(std::memory_order_relaxed);
  state.last_step_time_ns = header_->last_step_time_ns.load(std::memory_order_relaxed);
  state.next_sequence = header_->next_sequence.load(std::memory_order_relaxed);
  state.dropped_records = header_->dropped_records.load(std::memory_order_relaxed);
  state.overhead_ppm = header_->overhead_ppm.load(std::memory_order_relaxed);
  const uint64_t used =
      header_->head.load(std::memory_order_relaxed) - header_->tail.load(std::memory_order_relaxed);
  state.fill = std::min(1.0, static_cast<double>(used) / ring_bytes_);
  return state;
}

Status RingReader::damaged(const std::string& what, uint64_t position) const {
  return corruption(
      "ring " + path_ + " is damaged at position " + std::to_string(position) + ": " + what,
      "what was read before it is kept");
}

}  // namespace paramedic::record
