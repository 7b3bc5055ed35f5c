#include "cli/failure_view.h"

#include <fmt/format.h>

#include "base/path.h"
#include "diagnose/category.h"

namespace paramedic::cli {
namespace {

// The member `key`, or null.
Json part_of(const Json& failure, const char* key) {
  if (!failure.is_object()) return nullptr;
  const auto found = failure.find(key);
  return found == failure.end() ? Json(nullptr) : *found;
}

}  // namespace

std::string exception_of(const Json& failure) {
  const std::string type = string_or(part_of(failure, "exception"), "type", "");
  return type.empty() ? string_or(failure, "title", "") : type;
}

std::string failure_message(const Json& failure) {
  return string_or(part_of(failure, "exception"), "message", "");
}

std::string cause_of(const Json& failure) {
  std::string id = string_or(failure, "category", "");
  const auto category = diagnose::category_named(id);
  if (!category) return id;
  return fmt::format("{}: {}", id, diagnose::info(*category).title);
}

std::string retry_of(const Json& failure) {
  const std::string retry = string_or(failure, "retry", "");
  const std::string reason = string_or(failure, "retry_reason", "");
  return reason.empty() ? retry : fmt::format("{}: {}", retry, reason);
}

std::string failure_line(const Json& failure) {
  std::string text = cause_of(failure);
  if (const Json where = part_of(failure, "where"); where.is_object()) {
    const std::string file = string_or(where, "file", "");
    text += fmt::format(" · {}:{}", base_name(file), integer_or(where, "line", 0));
  }
  if (const std::string stage = string_or(failure, "stage", "unknown"); stage != "unknown") {
    text += " · stage " + stage;
  }
  const int64_t rank = integer_or(failure, "first_failing_rank", -1);
  if (rank >= 0) text += fmt::format(" · rank {} first", rank);
  if (const std::string retry = string_or(failure, "retry", ""); !retry.empty()) {
    text += " · retry " + retry;
  }
  return text;
}

}  // namespace paramedic::cli
