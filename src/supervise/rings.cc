#include "supervise/rings.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

// A ring is found while its writer still lays it out; after this many looks it is no ring.
constexpr int kOpenTriesMax = 50;

void keep_furthest(RankState& kept, const store::RingImporter::State& state, bool running) {
  if (kept.newest.path.empty() || state.last_step >= kept.newest.last_step) kept.newest = state;
  // A launcher that starts a rank again begins at an earlier step.
  if (running) kept.current = state;
  kept.running = kept.running || running;
  if (!kept.running) kept.current = kept.newest;
}

}  // namespace

RingSet::RingSet(std::string ring_dir, std::string run_id, Note note)
    : ring_dir_(std::move(ring_dir)), run_id_(std::move(run_id)), note_(std::move(note)) {}

void RingSet::discover() {
  for (const std::string& path : store::find_rings(ring_dir_, run_id_)) {
    if (rings_.contains(path)) continue;
    int& failures = failed_[path];
    if (failures >= kOpenTriesMax) continue;
    auto importer = store::RingImporter::open(path, std::nullopt);
    if (importer.ok()) {
      failed_.erase(path);
      rings_[path].importer = std::move(importer).value();
    } else if (++failures == kOpenTriesMax) {
      note_("what one process captured cannot be read: " + importer.status().message());
    }
  }
}

void RingSet::drain(store::RowSink& sink) {
  discover();
  for (auto& [path, ring] : rings_) {
    if (ring.is_damaged) continue;
    // Asked first: what a writer wrote before it died is then all in the ring.
    ring.is_complete = !is_running(ring.importer->state().pid);
    const auto drained = ring.importer->drain(sink);
    if (drained.ok()) continue;
    ring.is_damaged = true;
    note_("what one process captured is damaged from here on: " + drained.status().message());
  }
}

double RingSet::fullest() const {
  double fullest = 0;
  for (const auto& [path, ring] : rings_) {
    if (!ring.is_damaged) fullest = std::max(fullest, ring.importer->state().fill);
  }
  return fullest;
}

void RingSet::acknowledge() {
  for (auto entry = rings_.begin(); entry != rings_.end();) {
    Ring& ring = entry->second;
    if (!ring.is_damaged) ring.importer->acknowledge();
    // A damaged ring is kept: it is the only evidence of what went wrong.
    if (!ring.is_complete || ring.is_damaged) {
      ++entry;
      continue;
    }
    remember(ring.importer->state());
    ring.importer.reset();
    ::unlink(entry->first.c_str());
    entry = rings_.erase(entry);
  }
}

void RingSet::remember(const store::RingImporter::State& state) {
  finished_dropped_records_ += state.dropped_records;
  keep_furthest(finished_[state.rank], state, false);
}

std::map<int, RankState> RingSet::ranks() const {
  std::map<int, RankState> ranks = finished_;
  for (const auto& [path, ring] : rings_) {
    const auto state = ring.importer->state();
    keep_furthest(ranks[state.rank], state, !ring.is_complete);
  }
  return ranks;
}

uint64_t RingSet::dropped_records() const {
  uint64_t dropped = finished_dropped_records_;
  for (const auto& [path, ring] : rings_) dropped += ring.importer->state().dropped_records;
  return dropped;
}

}  // namespace paramedic::supervise
