#include "base/json.h"

#include <utility>

namespace paramedic {
namespace {

const Json* member(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    return corruption(std::string(what) + " is not valid JSON: " + error.what());
  }
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string string_or(const Json& json, const char* key, std::string fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::move(fallback);
}

double number_or(const Json& json, const char* key, double fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_number() ? found->get<double>() : fallback;
}

int64_t integer_or(const Json& json, const char* key, int64_t fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

uint64_t unsigned_or(const Json& json, const char* key, uint64_t fallback) {
  const Json* found = member(json, key);
  if (found == nullptr || !found->is_number_integer()) return fallback;
  if (!found->is_number_unsigned() && found->get<int64_t>() < 0) return fallback;
  return found->get<uint64_t>();
}

bool bool_or(const Json& json, const char* key, bool fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : fallback;
}

}  // namespace paramedic
