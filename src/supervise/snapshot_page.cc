#include "supervise/snapshot_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/file.h"
#include "supervise/fd.h"
#include "supervise/output_page.h"
#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

constexpr char kMagic[8] = {'P', 'M', 'S', 'N', 'A', 'P', '1', '\0'};
constexpr uint32_t kVersion = 1;
constexpr size_t kPageBytes = 64 * 1024;
constexpr size_t kRankOffset = 16;
constexpr size_t kSlotOffset = 64;  // the second slot follows after as many bytes
constexpr size_t kReasonOffset = 512;
constexpr size_t kReasonBytes = 512;
// Indexes of 64-bit words.
constexpr size_t kPublished = 3;
constexpr size_t kOrder = 4;
constexpr size_t kAnswer = 5;
constexpr size_t kUnrepeatable = 26;  // one word for each slot
constexpr std::string_view kEnding = ".snapshot";

// One snapshot as it lies in the page.
struct Slot {
  uint64_t generation;
  int64_t step;
  uint64_t stdout_position;
  uint64_t stderr_position;
  uint64_t wall_ns;
  uint64_t cost_ns;
  uint32_t pid;
  uint32_t crc;  // CRC-32C of the bytes before it
};
static_assert(sizeof(Slot) == 56 && offsetof(Slot, crc) == 52);

std::string page_path(const std::string& ring_dir, const std::string& run_id, pid_t owner) {
  return fmt::format("{}/paramedic-{}-{}{}", ring_dir, run_id, owner, kEnding);
}

// What stands by for a process that is gone would wait until we are gone too.
void end_standby(const SnapshotPage& page) {
  const auto snapshot = page.newest();
  if (!snapshot) return;
  const auto process = read_process("/proc", snapshot->pid);
  // A child of ours that was not waited for: its number cannot be another process's.
  if (process && process->parent == ::getpid()) ::kill(snapshot->pid, SIGKILL);
}

}  // namespace

Result<SnapshotPage> SnapshotPage::open(const std::string& ring_dir, const std::string& run_id,
                                        pid_t owner) {
  const std::string path = page_path(ring_dir, run_id, owner);
  const Fd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return not_found("there is no " + path);
  if (!file.valid()) return errno_error("cannot open", path, errno);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || status.st_size < static_cast<off_t>(kPageBytes)) {
    return corruption(path + " is too short for a page of snapshots");
  }
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return errno_error("cannot map", path, errno);
  SnapshotPage page(memory);
  const auto* bytes = static_cast<const char*>(memory);
  uint32_t version = 0;
  std::memcpy(&version, bytes + sizeof kMagic, sizeof version);
  if (std::memcmp(bytes, kMagic, sizeof kMagic) != 0 || version != kVersion) {
    return corruption(path + " is no page of snapshots, or of another version");
  }
  return page;
}

SnapshotPage::SnapshotPage(SnapshotPage&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)) {}

SnapshotPage::~SnapshotPage() {
  if (memory_ != nullptr) ::munmap(memory_, kPageBytes);
}

uint64_t SnapshotPage::word(size_t index) const {
  return std::atomic_ref<uint64_t>(static_cast<uint64_t*>(memory_)[index])
      .load(std::memory_order_acquire);
}

std::optional<Snapshot> SnapshotPage::newest() const {
  const uint64_t generation = word(kPublished);
  if (generation == 0) return std::nullopt;
  Slot slot{};
  const char* at = static_cast<const char*>(memory_) + kSlotOffset * (1 + generation % 2);
  std::memcpy(&slot, at, sizeof slot);
  const bool is_whole = crc32c(&slot, offsetof(Slot, crc)) == slot.crc;
  if (!is_whole || slot.generation != generation || slot.pid <= 1) return std::nullopt;
  return Snapshot{slot.generation,
                  slot.step,
                  slot.stdout_position,
                  slot.stderr_position,
                  static_cast<int64_t>(slot.wall_ns),
                  static_cast<pid_t>(slot.pid)};
}

bool SnapshotPage::is_repeatable(const Snapshot& snapshot) const {
  return word(kUnrepeatable + snapshot.generation % 2) == 0;
}

std::string SnapshotPage::reason() const {
  const char* text = static_cast<const char*>(memory_) + kReasonOffset;
  return {text, ::strnlen(text, kReasonBytes)};
}

int32_t SnapshotPage::rank() const {
  int32_t rank = 0;
  std::memcpy(&rank, static_cast<const char*>(memory_) + kRankOffset, sizeof rank);
  return rank;
}

void SnapshotPage::order(const Snapshot& snapshot) {
  std::atomic_ref<uint64_t>(static_cast<uint64_t*>(memory_)[kOrder])
      .store(snapshot.generation, std::memory_order_release);
}

std::optional<bool> SnapshotPage::answer(const Snapshot& snapshot) const {
  const uint64_t answer = word(kAnswer);
  if (answer == 0) return std::nullopt;
  return answer == snapshot.generation;
}

void remove_snapshots(const std::string& ring_dir, const std::string& run_id) {
  const auto names = posix_file_system().list(ring_dir);
  if (!names.ok()) return;
  const std::string prefix = "paramedic-" + run_id + "-";
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix) || !name.ends_with(kEnding)) continue;
    pid_t owner = 0;
    const char* last = name.data() + name.size() - kEnding.size();
    const auto [end, error] = std::from_chars(name.data() + prefix.size(), last, owner);
    if (error != std::errc{} || end != last || is_running(owner)) continue;
    if (const auto page = SnapshotPage::open(ring_dir, run_id, owner); page.ok()) {
      end_standby(*page);
    }
    ::unlink(page_path(ring_dir, run_id, owner).c_str());
  }
  ::unlink(output_page_path(ring_dir, run_id).c_str());
}

}  // namespace paramedic::supervise
