#pragma once
// What a node sends to its collector and what it gets back (docs/formats/parcel.md). Nothing in
// the bytes is trusted. Plain values.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace paramedic::nodes {

constexpr uint64_t kParcelBytesMax = 8 << 20;
constexpr size_t kPiecesMax = 20'000;

// A part of a segment file: `file` is "TABLE/rank-N-SEQ.idx" or ".arrows".
struct Piece {
  std::string file;
  uint64_t offset = 0;
  std::string bytes;
};

struct Parcel {
  std::string job;   // the run that all nodes belong to
  std::string node;  // unique in it
  bool asks_sizes = false;
  std::vector<Piece> pieces;
  // Of the run folder as it stood before the pieces were taken, "" where there is nothing new.
  std::string info;  // run.json
  std::string look;  // look.json
  // How many findings of which collector have come back already.
  std::string collector;
  uint64_t findings_seen = 0;
};

struct Receipt {
  std::string refused;  // why nothing of it was taken for good; "" when it was
  // How much of each file has come, when that was asked for or the pieces did not fit.
  bool has_sizes = false;
  std::map<std::string, uint64_t> sizes;
  // Wall clock of the collector, when the parcel had come and when this was sent.
  int64_t received_ns = 0;
  int64_t answered_ns = 0;
  std::string collector;  // which one: another one counts its findings anew
  uint64_t findings_count = 0;
  struct Finding {
    std::string key;
    Json json;
  };
  std::vector<Finding> findings;  // those after `findings_seen`, a few at a time
  bool has_judged = false;        // what the node sent up to its end has been judged
};

std::string encode(const Parcel& parcel);
Result<Parcel> decode_parcel(std::string_view bytes);
std::string encode(const Receipt& receipt);
Result<Receipt> decode_receipt(std::string_view bytes);

// Usable as the name of a folder inside of another one: letters, digits, '.', '_' and '-', at most
// 100, the first one no '.'.
bool is_plain_name(std::string_view name);
// Whether a piece may belong to this file.
bool is_segment_file(std::string_view file);

}  // namespace paramedic::nodes
