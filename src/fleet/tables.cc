#include "fleet/tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace paramedic::fleet {
namespace {

using diagnose::Category;
using diagnose::Domain;

constexpr double kDayS = 86400;

class Counter {
 public:
  void add(std::string_view name, std::string_view title, const Job& job) {
    Row& row = rows_[std::string(name)];
    row.title = title;
    row.count += 1;
    row.machine_s += job.machine_seconds();
  }

  [[nodiscard]] std::vector<Row> rows() const {
    std::vector<Row> sorted;
    sorted.reserve(rows_.size());
    for (const auto& [name, row] : rows_) {
      sorted.push_back(row);
      sorted.back().name = name;
    }
    std::sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) {
      return a.count != b.count ? a.count > b.count : a.name < b.name;
    });
    return sorted;
  }

 private:
  std::map<std::string, Row> rows_;
};

// The first kRepeatedMax by count.
template <typename T>
void keep_most_frequent(std::vector<T>& items) {
  std::sort(items.begin(), items.end(), [](const T& a, const T& b) {
    return a.count != b.count ? a.count > b.count : a.fingerprint < b.fingerprint;
  });
  if (items.size() > kRepeatedMax) items.resize(kRepeatedMax);
}

std::vector<Repeated> repeated_of(const std::vector<const Job*>& failed) {
  struct Seen {
    Repeated repeated;
    std::set<std::string> owners;
  };
  std::map<std::string, Seen> seen;
  for (const Job* job : failed) {
    if (job->category == Category::kUnknown) continue;  // they only have in common what is missing
    Seen& entry = seen[job->fingerprint];
    Repeated& repeated = entry.repeated;
    if (repeated.count == 0) {
      repeated = {job->fingerprint, job->message, job->name, job->owner, job->started, 0, 0, 0};
    }
    repeated.count += 1;
    repeated.machine_s += job->machine_seconds();
    entry.owners.insert(job->owner);
  }
  std::vector<Repeated> result;
  for (auto& [fingerprint, entry] : seen) {
    if (entry.repeated.count < 2) continue;
    entry.repeated.owners = entry.owners.size();
    result.push_back(std::move(entry.repeated));
  }
  keep_most_frequent(result);
  return result;
}

// `by_time`: all jobs, so that a success between two failures parts them.
void find_useless(const std::vector<const Job*>& by_time, Tables& tables) {
  std::map<std::string, const Job*> before;
  std::map<std::string, UselessRetries> useless;
  for (const Job* job : by_time) {
    if (job->command.empty() || job->is_running) continue;
    const Job*& last = before[job->command];
    const bool is_again = last != nullptr && last->has_failed() && job->has_failed() &&
                          last->fingerprint == job->fingerprint;
    if (is_again) {
      UselessRetries& entry = useless[job->command + job->fingerprint];
      entry.fingerprint = job->fingerprint;
      entry.last_job = job->name;
      entry.retry = last->retry;
      entry.count += 1;
      entry.machine_s += job->machine_seconds();
      tables.useless_retries += 1;
      tables.useless_s += job->machine_seconds();
    }
    last = job;
  }
  for (auto& [key, entry] : useless) tables.useless.push_back(std::move(entry));
  keep_most_frequent(tables.useless);
}

std::vector<Day> days_of(const std::vector<const Job*>& by_time) {
  std::map<int64_t, Day> days;
  for (const Job* job : by_time) {
    if (job->started <= 0) continue;
    const auto number = static_cast<int64_t>(std::floor(job->started / kDayS));
    Day& day = days[number];
    day.day = number;
    day.jobs += 1;
    day.failed += job->has_failed() ? 1 : 0;
  }
  std::vector<Day> result;
  for (const auto& [number, day] : days) result.push_back(day);
  if (result.size() > kDaysMax) {
    result.erase(result.begin(), result.end() - static_cast<ptrdiff_t>(kDaysMax));
  }
  return result;
}

Json rows_json(const std::vector<Row>& rows, const Tables& tables) {
  Json list = Json::array();
  for (const Row& row : rows) {
    list.push_back({{"name", row.name},
                    {"title", row.title.empty() ? Json(nullptr) : Json(row.title)},
                    {"count", row.count},
                    {"share", tables.failed == 0 ? 0.0
                                                 : static_cast<double>(row.count) /
                                                       static_cast<double>(tables.failed)},
                    {"machine_s", row.machine_s},
                    {"machine_share", tables.lost_s > 0 ? row.machine_s / tables.lost_s : 0.0}});
  }
  return list;
}

Json repeated_json(const Tables& tables) {
  Json list = Json::array();
  for (const Repeated& each : tables.repeated) {
    list.push_back(
        {{"fingerprint", each.fingerprint},
         {"message", each.message},
         {"count", each.count},
         {"owners", each.owners},
         {"machine_s", each.machine_s},
         {"first",
          {{"job", each.first_job}, {"owner", each.first_owner}, {"time", each.first_time}}}});
  }
  return list;
}

Json useless_json(const Tables& tables) {
  Json list = Json::array();
  for (const UselessRetries& each : tables.useless) {
    list.push_back({{"fingerprint", each.fingerprint},
                    {"count", each.count},
                    {"machine_s", each.machine_s},
                    {"last_job", each.last_job},
                    {"verdict", name(each.retry)}});
  }
  return {{"count", tables.useless_retries},
          {"machine_s", tables.useless_s},
          {"commands", std::move(list)}};
}

}  // namespace

std::string_view cause_class(const Job& job) {
  if (job.category == Category::kFrameworkApiMisuse) return "API misunderstanding";
  switch (job.domain) {
    case Domain::kEnvironment:
      return "environment difference";
    case Domain::kConfig:
      return "parameters and structure";
    case Domain::kData:
      return "exceptional data";
    case Domain::kUserCode:
      return "programming error";
    case Domain::kPlatform:
      return "platform";
    case Domain::kHardware:
      return "hardware";
    case Domain::kUnknown:
      break;
  }
  return "unknown";
}

Tables make_tables(const std::vector<Job>& jobs) {
  Tables tables;
  tables.jobs = jobs.size();
  std::vector<const Job*> by_time;
  by_time.reserve(jobs.size());
  for (const Job& job : jobs) by_time.push_back(&job);
  std::sort(by_time.begin(), by_time.end(), [](const Job* a, const Job* b) {
    return a->started != b->started ? a->started < b->started : a->name < b->name;
  });
  Counter categories, causes, stages, retries;
  std::vector<const Job*> failed;
  for (const Job* job : by_time) {
    tables.machine_s += job->machine_seconds();
    tables.running += job->is_running ? 1 : 0;
    tables.unreadable += job->problem.empty() ? 0 : 1;
    if (!job->has_failed()) continue;
    failed.push_back(job);
    tables.lost_s += job->machine_seconds();
    categories.add(name(job->category), diagnose::info(job->category).title, *job);
    causes.add(cause_class(*job), "", *job);
    stages.add(name(job->stage), "", *job);
    retries.add(name(job->retry), "", *job);
  }
  tables.failed = failed.size();
  tables.finished = tables.jobs - tables.failed - tables.running - tables.unreadable;
  tables.categories = categories.rows();
  tables.causes = causes.rows();
  tables.stages = stages.rows();
  tables.retries = retries.rows();
  tables.repeated = repeated_of(failed);
  find_useless(by_time, tables);
  tables.days = days_of(by_time);
  return tables;
}

Json to_json(const Tables& tables) {
  Json days = Json::array();
  for (const Day& day : tables.days) {
    days.push_back({{"day", day.day}, {"jobs", day.jobs}, {"failed", day.failed}});
  }
  return {{"jobs", tables.jobs},
          {"failed", tables.failed},
          {"finished", tables.finished},
          {"running", tables.running},
          {"unreadable", tables.unreadable},
          {"machine_s", tables.machine_s},
          {"lost_machine_s", tables.lost_s},
          {"categories", rows_json(tables.categories, tables)},
          {"causes", rows_json(tables.causes, tables)},
          {"stages", rows_json(tables.stages, tables)},
          {"retries", rows_json(tables.retries, tables)},
          {"repeated", repeated_json(tables)},
          {"useless_retries", useless_json(tables)},
          {"days", std::move(days)}};
}

}  // namespace paramedic::fleet
