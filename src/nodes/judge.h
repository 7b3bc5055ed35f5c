#pragma once
// Judges the ranks of all nodes of one job together, by the watches that an agent uses for those of
// one node (src/cluster), and writes what it finds into the job's run folder. The nodes' parts lie
// in it: JOB/nodes/NODE. One thread.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "nodes/board.h"
#include "nodes/part.h"
#include "store/run.h"

namespace paramedic::nodes {

struct JudgeCallbacks {
  // A problem is new, or has become worse.
  std::function<void(const rules::Finding&)> finding;
  // Something about the job as a whole, one sentence.
  std::function<void(const std::string&)> note;
};

class Judge : public rules::FindingSink {
 public:
  // Begins the run in `dir`, or goes on with it: everything that is there is read again. An error
  // when another collector judges it, or its folder cannot be written.
  static Result<std::unique_ptr<Judge>> open(const std::string& dir, Board& board,
                                             JudgeCallbacks callbacks);
  ~Judge() override;

  // Reads what has come, and judges: about four times a second. `now_ns`: any monotonic clock.
  void tick(int64_t now_ns);
  // All nodes have ended and everything has been judged: the run is sealed.
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] const store::RunInfo& info() const { return info_; }

  void on_finding(const std::string& key, const rules::Finding& finding) override;

 private:
  struct Lock;

  Judge(std::unique_ptr<Lock> lock, store::RunInfo info, std::unique_ptr<store::RunWriter> writer,
        Board& board, JudgeCallbacks callbacks);
  void find_parts();
  bool read_parts(int64_t now_ns);
  [[nodiscard]] bool is_silent(const Part& part, int64_t now_ns) const;
  void watch_silence(int64_t now_ns);
  void gather_processes();
  void judge(int64_t now_ns);
  NodeSettings::Report settings_report();
  void update_info();
  void tell_clocks();
  void write();
  void finish();
  void note_write_failure(const Status& status);

  const std::unique_ptr<Lock> lock_;
  store::RunInfo info_;
  std::unique_ptr<store::RunWriter> writer_;
  Board& board_;
  const JudgeCallbacks callbacks_;
  std::unique_ptr<cluster::Cluster> cluster_;
  PartShares shares_;
  std::map<std::string, Part> parts_;  // by folder
  cluster::Moment moment_;
  std::map<std::string, rules::Finding> findings_;  // by key
  std::map<std::string, bool> silent_;              // by node, as it was told
  std::map<std::string, std::string> told_clocks_;  // by node
  std::string written_info_;
  int64_t judged_ns_ = 0;
  int64_t written_ns_ = 0;
  bool write_failed_ = false;
  bool is_over_ = false;
};

}  // namespace paramedic::nodes
