#include "rules/told.h"

#include <fmt/format.h>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

std::vector<std::string> names_of(const Json& fields, const char* key) {
  std::vector<std::string> names;
  const auto list = fields.find(key);
  if (list == fields.end() || !list->is_array()) return names;
  for (const Json& name : *list) {
    if (name.is_string() && names.size() < kTensorsPerFindingMax) {
      names.push_back(name.get<std::string>());
    }
  }
  return names;
}

}  // namespace

std::optional<Json> told(const store::EventRow& row, const char* kind) {
  if (row.kind != kind) return std::nullopt;
  Result<Json> parsed = parse_json(row.json, fmt::format("event {}", kind));
  if (!parsed.ok() || !parsed->is_object()) return std::nullopt;
  return std::move(*parsed);
}

std::optional<Where> told_where(const Json& fields) {
  const auto where = fields.find("where");
  if (where == fields.end() || !where->is_object()) return std::nullopt;
  Where place = {string_or(*where, "file", ""), static_cast<int32_t>(integer_or(*where, "line", 0)),
                 string_or(*where, "function", "")};
  if (place.line <= 0) return std::nullopt;
  return place;
}

Finding told_finding(const store::EventRow& row, const Json& fields, const char* tensors) {
  Finding finding;
  finding.step = integer_or(fields, "first_step", row.origin.step);
  finding.where = told_where(fields);
  if (tensors != nullptr) finding.tensors = names_of(fields, tensors);
  if (!finding.tensors.empty()) finding.tensor = finding.tensors.front();
  return finding;
}

}  // namespace paramedic::rules
