#include "diagnose/growing.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include "diagnose/input.h"
#include "diagnose/scan.h"

namespace paramedic::diagnose {
namespace {

// Gives what is added to the file, and its end only when nothing more is to be expected.
class GrowingSource : public ByteSource {
 public:
  GrowingSource(std::unique_ptr<ByteSource> file, int lease_fd, const Scanner& scanner,
                const GrowingOptions& options)
      : file_(std::move(file)), lease_fd_(lease_fd), scanner_(scanner), options_(options) {
    // Whoever opens the file while we hold the lease has a signal sent to us: one that means
    // nothing, in place of the one that would end us.
    ::fcntl(lease_fd_, F_SETSIG, SIGURG);
  }
  ~GrowingSource() override { close(lease_fd_); }

  Result<size_t> read(std::span<char> to) override {
    for (int waited_ms = 0;; waited_ms += options_.poll_ms) {
      // Before the read: what is written in between is read then.
      const bool is_last = !is_written();
      PARAMEDIC_ASSIGN(const size_t bytes, file_->read(to));
      if (bytes > 0 || is_last || is_interrupted_) return bytes;
      if (waited_ms >= options_.settle_ms && scanner_.has_cause()) return size_t{0};
      pollfd interrupt{options_.interrupt_fd, POLLIN, 0};
      is_interrupted_ = ::poll(&interrupt, 1, options_.poll_ms) > 0;
    }
  }

 private:
  // A lease to read is given only while nobody can write.
  [[nodiscard]] bool is_written() const {
    if (::fcntl(lease_fd_, F_SETLEASE, F_RDLCK) != 0) return true;
    ::fcntl(lease_fd_, F_SETLEASE, F_UNLCK);
    return false;
  }

  std::unique_ptr<ByteSource> file_;
  const int lease_fd_;
  const Scanner& scanner_;
  const GrowingOptions options_;
  bool is_interrupted_ = false;
};

}  // namespace

Result<Diagnosis> diagnose_growing(const std::string& path, const GrowingOptions& options) {
  Scanner scanner(Catalog::builtin());
  PARAMEDIC_ASSIGN(std::unique_ptr<ByteSource> source, open_input(path));
  if (path != "-") {
    const int lease_fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (lease_fd < 0) return errno_error("cannot open", path, errno);
    source = std::make_unique<GrowingSource>(std::move(source), lease_fd, scanner, options);
  }
  PARAMEDIC_TRY(scanner.scan(path, rank_of_path(path), *source));
  return resolve(Catalog::builtin(), scanner.take());
}

}  // namespace paramedic::diagnose
