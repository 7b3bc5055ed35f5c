#pragma once
// Test support: rows and expected findings as readable text (tests/golden/rules/README.md has the
// format), played into an engine. One thread.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "rules/engine.h"

namespace paramedic::rules {

// Keeps the newest finding of each key, in the order of first appearance.
class CollectingSink : public FindingSink {
 public:
  void on_finding(const std::string& key, const Finding& finding) override;

  [[nodiscard]] const std::vector<std::pair<std::string, Finding>>& findings() const {
    return findings_;
  }
  [[nodiscard]] size_t updates() const { return updates_; }

 private:
  std::vector<std::pair<std::string, Finding>> findings_;
  size_t updates_ = 0;
};

// Turns the text of a case into rows. Keeps the interned names, so it outlives the rows' use.
class CasePlayer {
 public:
  // Everything up to a line "=== findings", or all of it. Errors name the line.
  Status play(std::string_view text, store::RowSink& sink);

 private:
  struct Line {
    int number = 0;
    std::vector<std::string> words;
  };
  // Where a `repeat` stands; the outermost is a repeat of one step.
  struct Loop {
    int64_t from = 0;
    int64_t to = 0;
  };
  Status run(const std::vector<Line>& lines, size_t from, size_t to, store::RowSink& sink);
  Status play_line(const Line& line, const Loop& loop, store::RowSink& sink);
  Status play_stats(const Line& line, const Loop& loop, store::RowSink& sink);
  Status play_model(const Line& line, store::RowSink& sink);
  Result<double> number(const Line& line, std::string_view text, const Loop& loop);
  double noise();
  void advance(int64_t step);
  const std::string* name(const std::string& text);

  store::Origin origin_;
  int fit_ = 0;
  uint64_t random_ = 1;
  std::map<uint64_t, uint64_t> sequences_;  // by ring
  std::map<std::string, std::unique_ptr<std::string>> names_;
  std::map<std::string, std::unique_ptr<store::TensorInfo>> tensors_;
};

// The findings as a case file states them; "none" without any.
std::string findings_text(const CollectingSink& sink);

}  // namespace paramedic::rules
