#pragma once
// JSON through nlohmann, with its exceptions turned into Status at this edge. `Json` keeps the
// order in which members were added, so that output reads as the contract is written.

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "base/status.h"

namespace paramedic {

using Json = nlohmann::ordered_json;

// `what` names the text in the error message ("run.json of run-7").
Result<Json> parse_json(std::string_view text, std::string_view what);

// On one line, invalid UTF-8 replaced, never throws.
std::string to_text(const Json& json);

// The member `key` if it is there and of that type, else `fallback`; never throws.
std::string string_or(const Json& json, const char* key, std::string fallback);
double number_or(const Json& json, const char* key, double fallback);
int64_t integer_or(const Json& json, const char* key, int64_t fallback);
// Of a negative number too, the fallback.
uint64_t unsigned_or(const Json& json, const char* key, uint64_t fallback);
bool bool_or(const Json& json, const char* key, bool fallback);

}  // namespace paramedic
