#pragma once
// Reads a flight recorder's dump in one pass, JSON or the values of a pickle. One thread.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/flight_dump.h"
#include "cluster/json_cursor.h"
#include "cluster/pickle_cursor.h"

namespace paramedic::cluster {

// What is read of an entry; all other members are passed over.
enum class EntryMember : uint8_t {
  kNone,
  kCollective,
  kTransfer,
  kIsTransfer,
  kSizes,
  kDtypes,
  kGroupId,
  kGroup,
  kName,
  kRecord,
  kRetired,
  kState,
  kCreated,
  kFrames
};
struct ReadEntry {
  std::string group;
  std::string description;
  int64_t group_id = -1;
  int64_t collective = 0;
  int64_t transfer = 0;
  int64_t record = -1;
  int64_t created_ns = 0;
  bool is_transfer = false;
  bool retired = false;
  bool is_completed = false;
  uint32_t site = 0;
  std::string name;
  std::string dtypes;
  std::vector<int64_t> sizes;  // of all tensors, each after how many it has
  // In the dump, as long as what they are found by stays the same.
  std::optional<uint32_t> group_at;
  std::optional<uint32_t> call_at;
};

// `Cursor` is JsonCursor or PickleCursor.
template <typename Cursor>
class DumpReader {
 public:
  explicit DumpReader(Cursor values) : json_(std::move(values)) {}

  // What was told; the rank is -1 when the dump does not tell it. What has another type or place
  // than in a dump is passed over. kCorruption: it is no JSON, or no dump.
  Result<FlightDump> read();

 private:
  using Kind = JsonCursor::Kind;
  struct Status {
    int64_t last_enqueued = -1;
    int64_t last_completed = -1;
  };

  void read_member(std::string_view key);
  static EntryMember member_of(std::string_view key);
  void read_entry();
  void read_entry_member(EntryMember member);
  void read_group_of_entry();
  void read_dtypes();
  void read_frames();
  void read_sizes();
  void read_frame();
  uint32_t site_of_frame();
  void read_config();
  void read_config_member(std::string_view key, FlightGroup& group);
  void read_status();
  void add_entry();
  void finish();

  // Whole numbers stand as numbers in pickles and, some, as text in JSON.
  int64_t number_or(int64_t fallback);
  bool is_true();
  [[nodiscard]] std::string_view text_or_nothing();

  uint32_t group_named(std::string_view name);
  uint32_t group_of_entry();
  uint32_t intern_call();
  void make_call(FlightCall& call) const;

  Cursor json_;
  FlightDump dump_;
  bool is_dump_ = false;
  ReadEntry entry_;
  typename Cursor::Layout layout_;    // of the entry before
  std::vector<EntryMember> members_;  // of it, in its order
  std::string call_key_;              // all that tells calls apart: name, types, sizes
  std::map<std::string, uint32_t, std::less<>> groups_;        // by name
  std::unordered_map<std::string, uint32_t> calls_;            // by call_key_
  std::map<std::pair<std::string, int32_t>, uint32_t> sites_;  // by file and line
  std::map<std::string, bool, std::less<>> own_files_;
  // By the identity of a frame that is shared: its site, 0 of one that is not the job's own.
  std::vector<std::optional<uint32_t>> shared_frames_;
  std::map<std::string, Status> status_;         // by the group's number in the process
  std::map<std::string, uint32_t> group_of_id_;  // the same numbers, as entries tell them
};

extern template class DumpReader<JsonCursor>;
extern template class DumpReader<PickleCursor>;

// The numbers in the text of a list, "[0, 1]"; what is no rank is left out. Ascending, each once.
std::vector<int32_t> ranks_in_text(std::string_view text);

}  // namespace paramedic::cluster
