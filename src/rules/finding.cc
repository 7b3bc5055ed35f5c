#include "rules/finding.h"

#include <cmath>

namespace paramedic::rules {

namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

std::optional<int64_t> integer_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

std::optional<double> number_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<std::string> text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::vector<std::string> texts_of(const Json& json, const char* key) {
  std::vector<std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return texts;
  for (const Json& text : *found) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "error";
}

Json Finding::to_json() const {
  Json json;
  json["id"] = id;
  json["severity"] = severity_name(severity);
  json["time"] = time;
  json["step"] = or_null(step);
  json["last_step"] = or_null(last_step);
  json["mode"] = mode;
  json["rank"] = or_null(rank);
  json["tensor"] = or_null(tensor);
  json["kind"] = or_null(kind);
  json["value"] = number_or_null(value);
  json["threshold"] = number_or_null(threshold);
  json["where"] = nullptr;
  if (where) {
    json["where"] = {{"file", where->file},
                     {"line", where->line},
                     {"function", where->function.empty() ? Json(nullptr) : Json(where->function)}};
  }
  json["stage"] = stage;
  json["confidence"] = confidence;
  json["message"] = message;
  json["evidence"] = evidence;
  json["fix"] = fix;
  json["tensors"] = tensors;
  return json;
}

Result<Finding> Finding::from_json(const Json& json) {
  if (!json.is_object()) return corruption("a finding is no JSON object");
  Finding finding;
  finding.id = string_or(json, "id", "");
  if (finding.id.empty()) return corruption("a finding has no id");
  const std::string severity = string_or(json, "severity", "");
  bool known = false;
  for (const Severity each : {Severity::kInfo, Severity::kWarning, Severity::kError}) {
    if (severity != severity_name(each)) continue;
    finding.severity = each;
    known = true;
  }
  if (!known) return corruption("finding " + finding.id + ": unknown severity '" + severity + "'");
  finding.time = number_or(json, "time", 0);
  finding.step = integer_of(json, "step");
  finding.last_step = integer_of(json, "last_step");
  finding.mode = string_or(json, "mode", "train");
  if (const auto rank = integer_of(json, "rank")) finding.rank = static_cast<int32_t>(*rank);
  finding.tensor = text_of(json, "tensor");
  finding.kind = text_of(json, "kind");
  finding.value = number_of(json, "value");
  finding.threshold = number_of(json, "threshold");
  if (const auto where = json.find("where"); where != json.end() && where->is_object()) {
    finding.where =
        Where{string_or(*where, "file", ""), static_cast<int32_t>(integer_or(*where, "line", 0)),
              string_or(*where, "function", "")};
  }
  finding.stage = string_or(json, "stage", "train");
  finding.confidence = number_or(json, "confidence", 0);
  finding.message = string_or(json, "message", "");
  finding.evidence = texts_of(json, "evidence");
  finding.fix = string_or(json, "fix", "");
  finding.tensors = texts_of(json, "tensors");
  return finding;
}

}  // namespace paramedic::rules
