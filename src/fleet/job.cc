#include "fleet/job.h"

namespace paramedic::fleet {
namespace {

constexpr size_t kMessageMax = 200;

}  // namespace

void set_verdict(const diagnose::Verdict& verdict, Job& job) {
  job.category = verdict.category;
  job.domain = verdict.domain;
  job.stage = verdict.stage;
  job.retry = verdict.retry;
  job.mechanism = verdict.mechanism;
  job.fingerprint = verdict.fingerprint;
  job.message = verdict.evidence.empty() ? verdict.title : verdict.evidence.front().text;
  if (job.message.size() > kMessageMax) job.message.resize(kMessageMax);
}

Json to_json(const Job& job) {
  return {{"owner", job.owner},
          {"command", job.command},
          {"started", job.started},
          {"seconds", job.seconds},
          {"ranks", job.ranks},
          {"running", job.is_running},
          {"category", name(job.category)},
          {"domain", name(job.domain)},
          {"stage", name(job.stage)},
          {"retry", name(job.retry)},
          {"mechanism", job.mechanism},
          {"fingerprint", job.fingerprint},
          {"message", job.message}};
}

Job job_from_json(const Json& json) {
  using namespace diagnose;
  Job job;
  job.owner = string_or(json, "owner", "");
  job.command = string_or(json, "command", "");
  job.started = number_or(json, "started", 0);
  job.seconds = number_or(json, "seconds", 0);
  job.ranks = static_cast<int>(integer_or(json, "ranks", 1));
  job.is_running = bool_or(json, "running", false);
  job.category = category_named(string_or(json, "category", "")).value_or(Category::kUnknown);
  job.domain = domain_named(string_or(json, "domain", "")).value_or(Domain::kUnknown);
  job.stage = stage_named(string_or(json, "stage", "")).value_or(Stage::kUnknown);
  job.retry = retry_named(string_or(json, "retry", "")).value_or(Retry::kUnknown);
  job.mechanism = string_or(json, "mechanism", "");
  job.fingerprint = string_or(json, "fingerprint", "");
  job.message = string_or(json, "message", "");
  return job;
}

}  // namespace paramedic::fleet
