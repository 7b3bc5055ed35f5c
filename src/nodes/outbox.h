#pragma once
// What of a run folder the collector does not have yet. The folder is the spool: nothing is kept in
// memory but how much of each file has been sent. One thread.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nodes/parcel.h"

namespace paramedic::nodes {

class Outbox {
 public:
  explicit Outbox(std::string run_dir) : run_dir_(std::move(run_dir)) {}

  // What the collector has of each file: all that is known from now on.
  void know(const std::map<std::string, uint64_t>& sizes);

  struct Load {
    std::vector<Piece> pieces;
    uint64_t bytes = 0;  // of all pieces
    bool is_all = true;  // with them the collector has everything that stood in the folder
  };
  // The next pieces, at most `bytes_max` bytes of them: whole messages of segments with their
  // entries in the index, data before index. A file that cannot be read is passed over.
  Load next(uint64_t bytes_max);
  // They have come.
  void delivered(const std::vector<Piece>& pieces);

 private:
  struct Segment {
    uint64_t index_sent = 0;
    uint64_t data_sent = 0;
    bool is_complete = false;  // sealed and sent
  };

  void add_segment(const std::string& stem, bool is_sealed, uint64_t bytes_max, Load& load);

  const std::string run_dir_;
  std::map<std::string, Segment> segments_;  // by "TABLE/rank-N-SEQ"
};

}  // namespace paramedic::nodes
