#pragma once
// What many jobs' failures add up to. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "fleet/job.h"

namespace paramedic::fleet {

// One line of a table: how many of the failed jobs, and what machine time was lost to them.
struct Row {
  std::string name;
  std::string title;  // in words, where there are any
  uint64_t count = 0;
  double machine_s = 0;
};

// A failure that came back.
struct Repeated {
  std::string fingerprint;
  std::string message;  // of the first
  std::string first_job;
  std::string first_owner;
  double first_time = 0;
  uint64_t count = 0;
  uint64_t owners = 0;  // how many people met it
  double machine_s = 0;
};

// The same command, started again after a failure that then came back.
struct UselessRetries {
  std::string fingerprint;
  std::string last_job;
  diagnose::Retry retry = diagnose::Retry::kUnknown;  // what the verdict had said
  uint64_t count = 0;
  double machine_s = 0;
};

struct Day {
  int64_t day = 0;  // since 1970
  uint64_t jobs = 0;
  uint64_t failed = 0;
};

struct Tables {
  uint64_t jobs = 0;
  uint64_t failed = 0;
  uint64_t finished = 0;
  uint64_t running = 0;
  uint64_t unreadable = 0;
  double machine_s = 0;         // of all
  double lost_s = 0;            // of the failed ones
  std::vector<Row> categories;  // each table: the most frequent first
  std::vector<Row> causes;      // classes of root causes
  std::vector<Row> stages;
  std::vector<Row> retries;             // whether a restart could have helped
  std::vector<Repeated> repeated;       // at most kRepeatedMax, the most frequent first
  std::vector<UselessRetries> useless;  // at most kRepeatedMax
  uint64_t useless_retries = 0;         // of all
  double useless_s = 0;
  std::vector<Day> days;  // at most kDaysMax, the newest; in the order of time
};

constexpr size_t kRepeatedMax = 20;
constexpr size_t kDaysMax = 366;

// The class of root causes that the study of 2020 would count it under.
std::string_view cause_class(const Job& job);

Tables make_tables(const std::vector<Job>& jobs);

// `fleet --json`, without its `schema`.
Json to_json(const Tables& tables);

}  // namespace paramedic::fleet
