#pragma once
// What RunReader and replay share: the segments of a run's tables, decoded batch by batch. Not
// thread-safe.

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/batch_codec.h"
#include "store/run.h"
#include "store/segment_reader.h"
#include "store/tables.h"

namespace paramedic::store {

// The parts of a run of several nodes, each a run folder of its own: `dir`/nodes/NODE.
std::vector<std::string> part_folders(const std::string& dir);

// Damage met so far, each place once; and the objects that rows point to.
class RunFolder {
 public:
  RunFolder(std::string dir, bool finished) : dir_(std::move(dir)), finished_(finished) {}

  // Those of the folder itself, then those of its parts.
  [[nodiscard]] std::vector<std::string> segments(TableId table);
  // Nothing when the segment is gone, which --max-disk may do at any time, or cannot be read.
  std::optional<SegmentReader> open(const std::string& stem);

  // The names of one process.
  Interner& interner(uint64_t ring_id) {
    return interners_.try_emplace(ring_id, members_).first->second;
  }
  // Has the names of all processes know what events tell of their groups; once.
  void load_groups();
  void add_damage(Damage damage);
  [[nodiscard]] const std::vector<Damage>& damage() const { return damage_; }

 private:
  SegmentReader::OnDamage on_damage() {
    return [this](Damage damage) { add_damage(std::move(damage)); };
  }

  std::string dir_;
  bool finished_;  // nobody appends any more: a torn tail is damage
  MembersBook members_;
  std::map<uint64_t, Interner> interners_;
  bool groups_loaded_ = false;
  std::vector<Damage> damage_;
  std::set<std::pair<std::string, uint64_t>> damaged_places_;
};

// Decodes the batches of one segment.
class SegmentDecoder {
 public:
  // `segment` and `folder` outlive the decoder.
  SegmentDecoder(const SegmentReader& segment, TableId table, RunFolder& folder)
      : segment_(segment), table_(table), folder_(folder) {}

  // Nothing when the batch is damaged, which the folder has been told then. The batch is valid as
  // long as the decoder.
  std::optional<ParsedBatch> decode(const IndexEntry& entry);

 private:
  Result<ParsedBatch> parse(const IndexEntry& entry);

  const SegmentReader& segment_;
  TableId table_;
  RunFolder& folder_;
  std::optional<BatchParser> parser_;
};

// Reads all rows back merged by (ring_id, sequence), one process after the other.
Status replay_run(RunFolder& folder, RowSink& sink);

}  // namespace paramedic::store
