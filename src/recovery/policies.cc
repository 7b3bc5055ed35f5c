#include "recovery/policies.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/path.h"
#include "base/toml.h"
#include "recovery/stack_text.h"

namespace paramedic::recovery {
namespace {

// The same crash so often with no progress: somebody has to look at it.
constexpr int kTriesDefault = 3;
constexpr size_t kPatternsMax = 32;
constexpr int64_t kPatternBytesMax = 1 << 20;

using Pattern = std::unique_ptr<re2::RE2>;
using Captured = std::map<std::string, std::string>;

Status bad(std::string_view file, const std::string& key, const std::string& what) {
  return invalid_argument(fmt::format("{}: {}: {}", file, key, what));
}

// A key's value as a list: one item may stand without brackets.
std::vector<Json> items_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  if (!found->is_array()) return {*found};
  return {found->begin(), found->end()};
}

Result<std::vector<std::string>> texts_of(const Json& json, const char* key,
                                          std::string_view file) {
  std::vector<std::string> texts;
  for (const Json& item : items_of(json, key)) {
    if (!item.is_string()) return bad(file, key, "texts are expected");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Result<std::vector<double>> numbers_of(const Json& json, const char* key, std::string_view file) {
  std::vector<double> numbers;
  for (const Json& item : items_of(json, key)) {
    if (!item.is_number()) return bad(file, key, "numbers are expected");
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

Result<std::vector<Pattern>> patterns_of(const Json& json, const char* key, std::string_view file) {
  PARAMEDIC_ASSIGN(const auto texts, texts_of(json, key, file));
  if (texts.size() > kPatternsMax) return bad(file, key, "too many patterns");
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternBytesMax);
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) {
    patterns.push_back(std::make_unique<re2::RE2>(text, options));
    if (!patterns.back()->ok()) return bad(file, key, patterns.back()->error());
  }
  return patterns;
}

Status check_keys(const Json& json, std::string_view file, const std::set<std::string>& known) {
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key)) return bad(file, key, "there is no such key");
  }
  return {};
}

// "OutOfMemoryError" names torch.OutOfMemoryError too.
bool is_named(std::string_view type, std::string_view name) {
  if (type == name) return true;
  return type.size() > name.size() && type.ends_with(name) &&
         type[type.size() - name.size() - 1] == '.';
}

bool is_any_of(const Crash& crash, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return is_named(crash.exception, name) ||
           std::any_of(crash.bases.begin(), crash.bases.end(),
                       [&](const std::string& base) { return is_named(base, name); });
  });
}

// Whether a pattern is found in a text; what its named groups caught.
bool find_in(std::string_view text, const re2::RE2& pattern, Captured& captured) {
  std::vector<re2::StringPiece> groups(static_cast<size_t>(pattern.NumberOfCapturingGroups()) + 1);
  const re2::StringPiece piece(text.data(), text.size());
  if (!pattern.Match(piece, 0, text.size(), re2::RE2::UNANCHORED, groups.data(),
                     static_cast<int>(groups.size()))) {
    return false;
  }
  for (const auto& [name, index] : pattern.NamedCapturingGroups()) {
    const re2::StringPiece& group = groups[static_cast<size_t>(index)];
    if (group.data() != nullptr) captured[name] = std::string(group.data(), group.size());
  }
  return true;
}

// Whether any of `patterns` is found in any of `texts`; no pattern asks for nothing.
bool find_any(const std::vector<std::string_view>& texts, const std::vector<Pattern>& patterns,
              Captured& captured) {
  if (patterns.empty()) return true;
  return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& pattern) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](std::string_view text) { return find_in(text, *pattern, captured); });
  });
}

// A text as a Python literal. `is_escaped`: it comes out of such a literal.
std::string python_literal(std::string_view text, bool is_escaped) {
  std::string literal = "'";
  for (const char c : text) {
    if (c == '\'' || (c == '\\' && !is_escaped)) literal += '\\';
    if (c != '\n') literal += c;
  }
  return literal + "'";
}

// The folder that a crash names: by itself, or as that of a file. Messages of OSError hold paths as
// Python writes them; the last of two is the one that is written.
std::optional<std::string> folder_literal(const Captured& captured) {
  if (const auto folder = captured.find("folder"); folder != captured.end()) {
    return python_literal(folder->second, false);
  }
  for (const char* name : {"target", "path", "path_2"}) {
    const auto path = captured.find(name);
    if (path == captured.end() || path->second.empty()) continue;
    const std::string_view holds = folder_of(path->second);
    if (holds.empty()) return std::nullopt;
    return python_literal(holds, true);
  }
  return std::nullopt;
}

struct Match {
  std::vector<std::string> exceptions;
  std::vector<std::string> not_exceptions;
  std::vector<double> error_numbers;
  std::vector<double> http_statuses;
  std::vector<std::string> stages;
  std::vector<Pattern> message;
  std::vector<Pattern> code;
  std::vector<Pattern> file;

  static Result<Match> parse(const Json& json, std::string_view name);
  [[nodiscard]] bool fits(const Crash& crash, const StackText& stack, Captured& captured) const;
};

bool has(const std::vector<double>& numbers, std::optional<int32_t> number) {
  return numbers.empty() ||
         (number && std::find(numbers.begin(), numbers.end(), *number) != numbers.end());
}

Result<Match> Match::parse(const Json& json, std::string_view name) {
  if (!json.is_object()) return bad(name, "match", "a table is expected");
  PARAMEDIC_TRY(check_keys(
      json, name,
      {"exception", "not_exception", "errno", "http_status", "stage", "message", "code", "file"}));
  Match match;
  PARAMEDIC_ASSIGN(match.exceptions, texts_of(json, "exception", name));
  PARAMEDIC_ASSIGN(match.not_exceptions, texts_of(json, "not_exception", name));
  PARAMEDIC_ASSIGN(match.error_numbers, numbers_of(json, "errno", name));
  PARAMEDIC_ASSIGN(match.http_statuses, numbers_of(json, "http_status", name));
  PARAMEDIC_ASSIGN(match.stages, texts_of(json, "stage", name));
  PARAMEDIC_ASSIGN(match.message, patterns_of(json, "message", name));
  PARAMEDIC_ASSIGN(match.code, patterns_of(json, "code", name));
  PARAMEDIC_ASSIGN(match.file, patterns_of(json, "file", name));
  return match;
}

bool Match::fits(const Crash& crash, const StackText& stack, Captured& captured) const {
  captured.clear();
  if (!exceptions.empty() && !is_any_of(crash, exceptions)) return false;
  if (is_any_of(crash, not_exceptions)) return false;
  if (!has(error_numbers, crash.error_number) || !has(http_statuses, crash.http_status)) {
    return false;
  }
  if (!find_any({crash.message}, message, captured) || !find_any(stack.code, code, captured) ||
      !find_any(stack.files, file, captured)) {
    return false;
  }
  if (stages.empty()) return true;
  const std::string_view stage = diagnose::name(crash.judged().stage);
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

// A kind of repair and how often it is tried.
struct Step {
  std::string kind;
  std::string code;
  Json options = Json::object();
  std::vector<double> pauses_s;  // one for each try

  static Result<Step> parse(const Json& json, std::string_view name);
};

Result<Step> Step::parse(const Json& json, std::string_view name) {
  if (!json.is_object()) return bad(name, "remedy", "a table is expected");
  PARAMEDIC_TRY(check_keys(json, name, {"kind", "code", "options", "pauses_s", "tries"}));
  Step step;
  step.kind = string_or(json, "kind", "");
  step.code = string_or(json, "code", "");
  if (const auto options = json.find("options"); options != json.end()) step.options = *options;
  Json probe{{"kind", step.kind}, {"patch", "-"}, {"code", "-"}, {"value", "-"}};
  if (const auto kind = Repair::from_json(probe); !kind.ok()) {
    return bad(name, "kind", kind.status().message());
  }
  PARAMEDIC_ASSIGN(step.pauses_s, numbers_of(json, "pauses_s", name));
  const int64_t tries = integer_or(json, "tries", kTriesDefault);
  if (tries < 1 || tries > 10'000) return bad(name, "tries", "it is not from 1 to 10000");
  if (step.pauses_s.empty()) step.pauses_s.assign(static_cast<size_t>(tries), 0);
  return step;
}

// What groups caught takes the place of {group} in the texts of `options`.
Json filled(const Json& options, const Captured& captured) {
  Json result = options;
  for (auto& [key, value] : result.items()) {
    if (!value.is_string()) continue;
    const std::string text = value.get<std::string>();
    for (const auto& [name, caught] : captured) {
      if (text == fmt::format("{{{}}}", name)) value = caught;
    }
  }
  return result;
}

}  // namespace

struct Policies::Policy {
  std::string id;
  std::string title;
  std::string tell;
  int64_t order = 0;
  std::vector<Match> matches;
  std::vector<Step> steps;

  static Result<Policy> parse(const EmbeddedFile& file);
  [[nodiscard]] std::optional<Remedy> remedy(const Captured& captured, int attempt) const;
};

Result<Policies::Policy> Policies::Policy::parse(const EmbeddedFile& file) {
  PARAMEDIC_ASSIGN(const Json json, parse_toml(file.text, file.name));
  PARAMEDIC_TRY(check_keys(json, file.name, {"title", "tell", "order", "match", "remedy"}));
  Policy policy;
  policy.id = file.name.substr(0, file.name.find('.'));
  policy.title = string_or(json, "title", "");
  policy.tell = string_or(json, "tell", "");
  policy.order = integer_or(json, "order", 0);
  for (const Json& item : items_of(json, "match")) {
    PARAMEDIC_ASSIGN(Match match, Match::parse(item, file.name));
    policy.matches.push_back(std::move(match));
  }
  for (const Json& item : items_of(json, "remedy")) {
    PARAMEDIC_ASSIGN(Step step, Step::parse(item, file.name));
    policy.steps.push_back(std::move(step));
  }
  if (policy.title.empty()) return bad(file.name, "title", "it is missing");
  if (policy.matches.empty()) return bad(file.name, "match", "it is missing");
  if (policy.steps.empty()) return bad(file.name, "remedy", "it is missing");
  return policy;
}

std::optional<Remedy> Policies::Policy::remedy(const Captured& captured, int attempt) const {
  size_t index = static_cast<size_t>(std::max(attempt, 0));
  for (const Step& step : steps) {
    if (index >= step.pauses_s.size()) {
      index -= step.pauses_s.size();
      continue;
    }
    Remedy remedy{id, title, tell, {}, static_cast<int64_t>(step.pauses_s[index] * 1e9)};
    remedy.repair.kind = step.kind;
    remedy.repair.by = "policy";
    remedy.repair.code = step.code;
    remedy.repair.options = filled(step.options, captured);
    remedy.repair.options["policy"] = id;
    remedy.repair.options["attempt"] = attempt;
    constexpr std::string_view kFolder = "{folder}";
    if (const size_t at = step.code.find(kFolder); at != std::string::npos) {
      const auto folder = folder_literal(captured);
      if (!folder) return std::nullopt;
      remedy.repair.code.replace(at, kFolder.size(), *folder);
    }
    return remedy;
  }
  return std::nullopt;
}

Policies::Policies(std::vector<Policy> policies) : policies_(std::move(policies)) {}
Policies::Policies(Policies&&) noexcept = default;
Policies& Policies::operator=(Policies&&) noexcept = default;
Policies::~Policies() = default;

Result<Policies> Policies::parse(std::span<const EmbeddedFile> files) {
  std::vector<Policy> policies;
  for (const EmbeddedFile& file : files) {
    PARAMEDIC_ASSIGN(Policy policy, Policy::parse(file));
    policies.push_back(std::move(policy));
  }
  std::sort(policies.begin(), policies.end(), [](const Policy& a, const Policy& b) {
    return std::tie(a.order, a.id) < std::tie(b.order, b.id);
  });
  return Policies(std::move(policies));
}

const Policies& Policies::builtin() {
  static const Policies kPolicies = [] {
    auto policies = parse(policy_files());
    PARAMEDIC_CHECK(policies.ok());  // a test reads them too, and says what is wrong
    return std::move(policies).value();
  }();
  return kPolicies;
}

std::optional<Remedy> Policies::remedy(const Crash& crash, int attempt) const {
  const StackText stack = stack_text(crash);
  Captured captured;
  for (const Policy& policy : policies_) {
    for (const Match& match : policy.matches) {
      if (match.fits(crash, stack, captured)) return policy.remedy(captured, attempt);
    }
  }
  return std::nullopt;
}

std::vector<std::string> Policies::ids() const {
  std::vector<std::string> ids;
  ids.reserve(policies_.size());
  for (const Policy& policy : policies_) ids.push_back(policy.id);
  return ids;
}

}  // namespace paramedic::recovery
