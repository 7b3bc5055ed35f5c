#pragma once
// All rings of a run: found while the job runs, drained into one sink, removed when their writer
// is dead and everything in them is stored. One thread.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/run.h"

namespace paramedic::supervise {

// What the processes of one rank have told so far.
struct RankState {
  store::RingImporter::State newest;   // the process of the rank that came furthest
  store::RingImporter::State current;  // the one that runs, else as `newest`
  bool running = false;
};

class RingSet {
 public:
  using Note = std::function<void(std::string)>;
  RingSet(std::string ring_dir, std::string run_id, Note note);

  // Opens rings that are new, then passes on what all of them hold.
  void drain(store::RowSink& sink);
  // How full the fullest ring is, 0..1.
  [[nodiscard]] double fullest() const;
  // What was drained is stored: gives room back, and removes rings that nobody will write again.
  void acknowledge();

  [[nodiscard]] std::map<int, RankState> ranks() const;
  [[nodiscard]] uint64_t dropped_records() const;

 private:
  struct Ring {
    std::unique_ptr<store::RingImporter> importer;
    bool is_complete = false;  // its writer was dead already when it was last drained
    bool is_damaged = false;
  };

  void discover();
  void remember(const store::RingImporter::State& state);

  const std::string ring_dir_;
  const std::string run_id_;
  const Note note_;
  std::map<std::string, Ring> rings_;  // by path
  std::map<std::string, int> failed_;  // paths that could not be opened: how often
  std::map<int, RankState> finished_;  // of rings that were removed, by rank
  uint64_t finished_dropped_records_ = 0;
};

}  // namespace paramedic::supervise
