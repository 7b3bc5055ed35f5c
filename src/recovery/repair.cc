#include "recovery/repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace paramedic::recovery {
namespace {

constexpr int64_t kFramesMax = 1000;

constexpr std::array<std::string_view, 9> kKinds = {
    "retry", "edit", "action", "skip", "rewind", "rollback", "split_batch", "return", "abort"};

Status lacks(const std::string& kind, const char* what) {
  return invalid_argument(fmt::format("a repair of kind {} needs {}", kind, what));
}

// {"file", "line"}; anything else is no place.
std::optional<std::pair<std::string, int32_t>> place_of(const Json& json) {
  const auto found = json.find("at");
  if (found == json.end() || !found->is_object()) return std::nullopt;
  const std::string file = string_or(*found, "file", "");
  const int64_t line = integer_or(*found, "line", 0);
  if (file.empty() || line < 1 || line > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return std::pair(file, static_cast<int32_t>(line));
}

}  // namespace

Result<Repair> Repair::from_json(const Json& json) {
  Repair repair;
  repair.kind = string_or(json, "kind", "");
  if (std::find(kKinds.begin(), kKinds.end(), repair.kind) == kKinds.end()) {
    return invalid_argument(fmt::format("there is no repair '{}'", repair.kind));
  }
  repair.by = string_or(json, "by", "person");
  repair.patch = string_or(json, "patch", "");
  repair.code = string_or(json, "code", "");
  repair.value = string_or(json, "value", "");
  repair.frame = static_cast<int32_t>(
      std::clamp<int64_t>(integer_or(json, "frame", -1), -kFramesMax, kFramesMax));
  repair.at = place_of(json);
  if (repair.kind == "edit" && repair.patch.empty()) return lacks(repair.kind, "a patch");
  if (repair.kind == "action" && repair.code.empty()) return lacks(repair.kind, "code");
  if (repair.kind == "return" && repair.value.empty()) return lacks(repair.kind, "an expression");
  return repair;
}

Json Repair::to_json() const {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json place = nullptr;
  if (at) place = {{"file", at->first}, {"line", at->second}};
  return {{"kind", kind},
          {"by", by},
          {"patch", or_null(patch)},
          {"code", or_null(code)},
          {"value", or_null(value)},
          {"frame", frame},
          {"at", std::move(place)},
          {"options", options}};
}

}  // namespace paramedic::recovery
