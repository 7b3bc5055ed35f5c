#include "diagnose/category.h"

#include <array>
#include <cstddef>
#include <span>

#include "base/status.h"

namespace paramedic::diagnose {
namespace {

constexpr std::array<CategoryInfo, kCategoryCount> kCategories{{
#define X(id, enumerator, domain, retry, title) \
  {Category::enumerator, #id, Domain::domain, Retry::retry, title},
#include "diagnose/categories.inc"
#undef X
}};

using Names = std::span<const std::string_view>;
constexpr std::string_view kDomains[] = {"user_code", "config",   "data",   "environment",
                                         "platform",  "hardware", "unknown"};
constexpr std::string_view kRetries[] = {"never", "same_node", "other_node", "after_delay",
                                         "unknown"};
constexpr std::string_view kStages[] = {
    "start",    "import",     "arguments", "data",   "model",    "distributed", "train",
    "validate", "checkpoint", "evaluate",  "export", "teardown", "unknown"};
constexpr std::string_view kRoles[] = {"root",   "cascade",  "wrapper", "confirmation",
                                       "advice", "progress", "teardown"};

template <typename Enum>
std::string_view name_in(Names names, Enum value) {
  const auto index = static_cast<size_t>(value);
  PARAMEDIC_CHECK(index < names.size());
  return names[index];
}

template <typename Enum>
std::optional<Enum> named_in(Names names, std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

const CategoryInfo& info(Category category) {
  const auto index = static_cast<size_t>(category);
  PARAMEDIC_CHECK(index < kCategories.size());
  return kCategories[index];
}

std::string_view name(Category category) { return info(category).id; }
std::string_view name(Domain domain) { return name_in(kDomains, domain); }
std::string_view name(Retry retry) { return name_in(kRetries, retry); }
std::string_view name(Stage stage) { return name_in(kStages, stage); }
std::string_view name(Role role) { return name_in(kRoles, role); }

std::optional<Category> category_named(std::string_view name) {
  for (const CategoryInfo& known : kCategories) {
    if (known.id == name) return known.category;
  }
  return std::nullopt;
}

std::optional<Domain> domain_named(std::string_view name) {
  return named_in<Domain>(kDomains, name);
}
std::optional<Retry> retry_named(std::string_view name) { return named_in<Retry>(kRetries, name); }
std::optional<Stage> stage_named(std::string_view name) { return named_in<Stage>(kStages, name); }
std::optional<Role> role_named(std::string_view name) { return named_in<Role>(kRoles, name); }

}  // namespace paramedic::diagnose
