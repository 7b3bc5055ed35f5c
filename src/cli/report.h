#pragma once
// What `show` knows of a run, gathered in one pass over its folder. The renderers (render_*.h)
// take only this value, so that each is a pure function. Bounded: curves are folded (series.h),
// lists end at the kMax constants.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "cli/ranks_view.h"
#include "cli/series.h"
#include "rules/finding.h"
#include "store/run.h"

namespace paramedic::cli {

constexpr size_t kMaxSeries = 32;
constexpr size_t kMaxLayers = 2000;
constexpr size_t kMaxRepairs = 10000;

// The user's line that a finding points at.
struct Quote {
  std::string line;      // without the newline; "" when the file cannot be read any more
  bool changed = false;  // the file was changed after the run began
};

struct Problem {
  rules::Finding finding;
  Quote quote;
};

struct Layer {
  std::string name;        // of the module: "net.0"; "(model)" for parameters of the model itself
  std::string class_name;  // "Linear"; "" unknown
  uint64_t parameters = 0;
  GradientCurve gradient;
};

struct Phase {
  std::string name;
  double total_ms = 0;
};

struct Report {
  store::RunInfo info;
  std::string name;               // the folder's own
  double now = 0;                 // seconds since 1970 UTC: the end of the bar of a live run
  std::vector<Problem> problems;  // most severe first, then by step
  std::optional<rules::Where> failure_place;  // of info.failure
  Quote failure_quote;
  std::vector<store::RepairRow> repairs;  // in the order of time
  std::vector<Series> losses;             // most values first
  std::vector<Series> rates;              // learning rates
  Series norm;                            // global gradient norm at each captured step
  Series norm_before_clip;                // as the job computed it
  std::vector<Layer> layers;              // forward order
  std::vector<Phase> phases;              // in the order of a step
  double step_ms_total = 0;
  uint64_t steps_timed = 0;
  std::vector<std::string> optimizers;  // class names
  std::vector<std::string> loss_kinds;  // class names
  int64_t batch_size = 0;               // 0 unknown
  std::vector<store::Damage> damage;
  std::optional<RanksView> ranks_view;  // of runs with several ranks

  // "healthy", "problems" (an error or a warning was found) or "failed" (the job did).
  [[nodiscard]] const char* health() const;
  [[nodiscard]] size_t count(rules::Severity severity) const;
  // Steps that any curve covers: the common axis of all plots.
  [[nodiscard]] StepRange steps() const;
  [[nodiscard]] uint64_t parameters() const;
  // Seconds from the start to the end, or to now while it runs.
  [[nodiscard]] double seconds() const;
};

// The order in which problems are shown.
void sort_problems(std::vector<Problem>& problems);

// Reads what is needed of the run. `now`: seconds since 1970 UTC.
Result<Report> build_report(store::RunReader& reader, double now);

// The line a finding points at; paths are relative to the folder the job was started in.
Quote quote_source(const rules::Where& where, const store::RunInfo& info);

}  // namespace paramedic::cli
