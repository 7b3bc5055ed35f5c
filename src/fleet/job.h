#pragma once
// One job of many: what is kept of it once its logs were read. Plain values; a few hundred bytes,
// however long its logs are.

#include <string>

#include "base/json.h"
#include "diagnose/verdict.h"

namespace paramedic::fleet {

struct Job {
  std::string name;     // its path below the folder that was asked about
  std::string owner;    // the user that its files belong to
  std::string command;  // of a run, with the folder it ran in: the same for its repetitions
  double started = 0;   // seconds since 1970 UTC; of a log without dates that of its last change
  double seconds = 0;   // how long it ran, as far as that is known
  int ranks = 1;
  bool is_running = false;
  diagnose::Category category = diagnose::Category::kUnknown;
  diagnose::Domain domain = diagnose::Domain::kUnknown;
  diagnose::Stage stage = diagnose::Stage::kUnknown;
  diagnose::Retry retry = diagnose::Retry::kUnknown;
  std::string mechanism;
  std::string fingerprint;
  std::string message;  // of the evidence: one line
  std::string problem;  // why it could not be read; "" when it could

  [[nodiscard]] bool has_failed() const {
    return problem.empty() && !is_running && category != diagnose::Category::kNoFailure;
  }
  [[nodiscard]] double machine_seconds() const { return seconds * ranks; }
};

// What the verdict says of the job.
void set_verdict(const diagnose::Verdict& verdict, Job& job);

// All but the name, which another folder may give it.
Json to_json(const Job& job);
Job job_from_json(const Json& json);

}  // namespace paramedic::fleet
