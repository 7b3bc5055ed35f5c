#include "supervise/output_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace paramedic::supervise {
namespace {

constexpr char kMagic[8] = {'P', 'M', 'O', 'U', 'T', 'P', '1', '\0'};
constexpr size_t kPageBytes = 4096;
constexpr size_t kChannelsMax = 2;
// In 64-bit words: where the first channel begins, how far it is to the next one, and its fields.
constexpr size_t kFirst = 8;
constexpr size_t kStride = 8;
constexpr size_t kDevice = 0;
constexpr size_t kInode = 1;
constexpr size_t kKind = 2;
constexpr size_t kSequence = 3;
constexpr size_t kPosition = 4;
constexpr uint64_t kPipe = 1;
constexpr uint64_t kTerminal = 2;

}  // namespace

std::string output_page_path(const std::string& ring_dir, const std::string& run_id) {
  return fmt::format("{}/paramedic-{}.output", ring_dir, run_id);
}

void OutputCounter::step() {
  if (words_ == nullptr) return;
  std::atomic_ref<uint64_t>(words_[kSequence]).fetch_add(1, std::memory_order_seq_cst);
}

void OutputCounter::end(uint64_t position) {
  if (words_ == nullptr) return;
  std::atomic_ref<uint64_t>(words_[kPosition]).store(position, std::memory_order_release);
  step();
}

Result<std::unique_ptr<OutputPage>> OutputPage::create(const std::string& ring_dir,
                                                       const std::string& run_id,
                                                       const std::vector<Channel>& channels) {
  PARAMEDIC_CHECK(channels.size() <= kChannelsMax);
  const std::string path = output_page_path(ring_dir, run_id);
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return errno_error("cannot create", path, errno);
  // A hole on a full tmpfs would kill whoever writes to it.
  if (const int error = ::posix_fallocate(file.get(), 0, kPageBytes); error != 0) {
    ::unlink(path.c_str());
    return errno_error("cannot make room for", path, error);
  }
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    ::unlink(path.c_str());
    return errno_error("cannot map", path, errno);
  }
  auto* words = static_cast<uint64_t*>(memory);
  for (size_t i = 0; i < channels.size(); ++i) {
    struct stat status{};
    if (::fstat(channels[i].job_end.get(), &status) != 0) continue;
    uint64_t* channel = words + kFirst + i * kStride;
    channel[kDevice] = status.st_dev;
    channel[kInode] = status.st_ino;
    channel[kKind] = channels[i].is_pty ? kTerminal : kPipe;
  }
  std::memcpy(memory, kMagic, sizeof kMagic);
  return std::unique_ptr<OutputPage>(new OutputPage(path, memory));
}

OutputPage::~OutputPage() {
  ::munmap(memory_, kPageBytes);
  ::unlink(path_.c_str());
}

OutputCounter OutputPage::counter(size_t channel) const {
  PARAMEDIC_CHECK(channel < kChannelsMax);
  return OutputCounter(static_cast<uint64_t*>(memory_) + kFirst + channel * kStride);
}

}  // namespace paramedic::supervise
