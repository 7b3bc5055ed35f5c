#pragma once
// The words of a verdict, declared once for the whole project: categories, domains, retry verdicts,
// stages and roles, with their names in contract.md. Pure values, safe everywhere.

#include <cstdint>
#include <optional>
#include <string_view>

namespace paramedic::diagnose {

enum class Category : uint8_t {
#define X(id, enumerator, domain, retry, title) enumerator,
#include "diagnose/categories.inc"
#undef X
};

// Where the cause lies.
enum class Domain : uint8_t {
  kUserCode,
  kConfig,
  kData,
  kEnvironment,
  kPlatform,
  kHardware,
  kUnknown
};

// Whether running the same job again, unchanged, can help, and how.
enum class Retry : uint8_t { kNever, kSameNode, kOtherNode, kAfterDelay, kUnknown };

// The phase of the job that failed.
enum class Stage : uint8_t {
  kStart,
  kImport,
  kArguments,
  kData,
  kModel,
  kDistributed,
  kTrain,
  kValidate,
  kCheckpoint,
  kEvaluate,
  kExport,
  kTeardown,
  kUnknown
};

// What part an event plays. Wrappers and cascades are never the cause, advice is never evidence.
enum class Role : uint8_t {
  kRoot,
  kCascade,
  kWrapper,
  kConfirmation,
  kAdvice,
  kProgress,
  kTeardown
};

// The names of contract.md.
std::string_view name(Category category);
std::string_view name(Domain domain);
std::string_view name(Retry retry);
std::string_view name(Stage stage);
std::string_view name(Role role);

std::optional<Category> category_named(std::string_view name);
std::optional<Domain> domain_named(std::string_view name);
std::optional<Retry> retry_named(std::string_view name);
std::optional<Stage> stage_named(std::string_view name);
std::optional<Role> role_named(std::string_view name);

// What holds for a category where nothing more exact is known.
struct CategoryInfo {
  Category category;
  std::string_view id;
  Domain domain;
  Retry retry;
  std::string_view title;  // in words, without a full stop
};
const CategoryInfo& info(Category category);

inline constexpr int kCategoryCount = static_cast<int>(Category::kUnknown) + 1;

}  // namespace paramedic::diagnose
