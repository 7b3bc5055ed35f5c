#include "supervise/exits.h"

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

// Ranks of one node; more are not followed, since each costs a descriptor.
constexpr size_t kFollowedMax = 512;

// struct pidfd_info of linux/pidfd.h in its first form, which system headers do not have yet.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t ids[11];  // pid, tgid, ppid, then user and group ids
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kInfoExit = 1U << 3U;
const unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

// Until its parent has waited for it, a dead process has it in the last field of /proc/PID/stat;
// 0 where we may not know it.
std::optional<int> status_of_zombie(pid_t pid) {
  const auto text = read_small_file("/proc/" + std::to_string(pid) + "/stat");
  const auto stat = text ? parse_process_stat(*text) : std::nullopt;
  if (!stat || stat->state != 'Z') return std::nullopt;
  int status = 0;
  const char* field = text->data() + text->find_last_of(' ') + 1;
  const auto [end, error] = std::from_chars(field, text->data() + text->size(), status);
  return error != std::errc{} || status == 0 ? std::nullopt : std::optional(status);
}

}  // namespace

void Exits::follow(pid_t pid) {
  if (followed_.contains(pid) || followed_.size() >= kFollowedMax) return;
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd.valid()) followed_[pid].fd = std::move(fd);
}

std::optional<int> Exits::wait_status(pid_t pid) {
  const auto known = followed_.find(pid);
  if (known == followed_.end()) return std::nullopt;
  Followed& followed = known->second;
  if (followed.status || !followed.fd.valid()) return followed.status;
  PidfdInfo info{};
  info.mask = kInfoExit;
  const bool is_told = ::ioctl(followed.fd.get(), kGetInfo, &info) == 0;
  if (!is_told || (info.mask & kInfoExit) == 0) {
    followed.status = status_of_zombie(pid);
    return followed.status;
  }
  followed.status = info.exit_code;
  followed.fd.reset();
  return followed.status;
}

}  // namespace paramedic::supervise
