#pragma once
// A page in shared memory on which the copiers say how much of the job's output they have read, so
// that a snapshot can tell what had been printed by then (docs/formats/snapshot.md). Made by the
// supervisor, written by one copier for each channel, read by the job.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "supervise/channel.h"

namespace paramedic::supervise {

constexpr uint64_t kPositionUnknown = UINT64_MAX;

std::string output_page_path(const std::string& ring_dir, const std::string& run_id);

// The copier's side of one channel. A reader that finds `sequence` even and unchanged around its
// own look at the channel has a true picture. Does nothing where there is no page.
class OutputCounter {
 public:
  OutputCounter() = default;
  explicit OutputCounter(uint64_t* words) : words_(words) {}

  void begin() { step(); }  // before bytes are taken out of the channel
  void end(uint64_t position);

 private:
  void step();

  uint64_t* words_ = nullptr;
};

class OutputPage {
 public:
  // At `output_page_path`; `channels` with their job's ends still open.
  static Result<std::unique_ptr<OutputPage>> create(const std::string& ring_dir,
                                                    const std::string& run_id,
                                                    const std::vector<Channel>& channels);
  OutputPage(const OutputPage&) = delete;
  OutputPage& operator=(const OutputPage&) = delete;
  ~OutputPage();

  [[nodiscard]] OutputCounter counter(size_t channel) const;

 private:
  OutputPage(std::string path, void* memory) : path_(std::move(path)), memory_(memory) {}

  const std::string path_;
  void* const memory_;
};

}  // namespace paramedic::supervise
