#include "diagnose/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/lines.h"
#include "base/toml.h"
#include "diagnose/text.h"

namespace paramedic::diagnose {

// Made by cmake/embed_data.cmake.
std::span<const EmbeddedFile> signature_files();

namespace {

constexpr size_t kInnerFrames = 4;

using Expressions = std::map<std::string, Expression, std::less<>>;

const Expression* intern(Expressions& all, const std::string& text) {
  return text.empty() ? nullptr : &all.try_emplace(text, text).first->second;
}

std::vector<std::string> texts(const Json& entry, const char* key) {
  std::vector<std::string> found;
  if (!entry.contains(key)) return found;
  const Json& value = entry[key];
  if (value.is_string()) return {value.get<std::string>()};
  if (value.is_array()) {
    for (const Json& text : value) {
      if (text.is_string()) found.push_back(text.get<std::string>());
    }
  }
  return found;
}

template <typename Value>
struct Word {
  std::string_view name;
  Value value;
};
constexpr std::array<Word<Tier>, 5> kTiers{{{"fallback", Tier::kFallback},
                                            {"general", Tier::kGeneral},
                                            {"type", Tier::kType},
                                            {"message", Tier::kMessage},
                                            {"exact", Tier::kExact}}};
constexpr std::array<Word<Weight>, 3> kWeights{
    {{"symptom", Weight::kSymptom}, {"cause", Weight::kCause}, {"outright", Weight::kOutright}}};

constexpr std::array<Word<Telling>, 4> kTellings{{{"nothing", Telling::kNothing},
                                                  {"hint", Telling::kHint},
                                                  {"setting", Telling::kSetting},
                                                  {"act", Telling::kAct}}};

template <typename Value, size_t count>
std::optional<Value> word_named(const std::array<Word<Value>, count>& words,
                                std::string_view name) {
  for (const auto& word : words) {
    if (word.name == name) return word.value;
  }
  return std::nullopt;
}

// Reads the members of one entry, remembering the first fault.
class Entry {
 public:
  Entry(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  std::string text(const char* key) const { return string_or(json_, key, ""); }
  template <typename Named, typename Value>
  void word(const char* key, Named named, Value& into) {
    const std::string name = text(key);
    if (name.empty()) return;
    if (const auto value = named(name)) {
      into = *value;
    } else {
      fail(fmt::format("{} = '{}' is no known word", key, name));
    }
  }
  void only(std::initializer_list<std::string_view> keys) {
    for (const auto& [key, value] : json_.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) fail("unknown key " + key);
    }
  }
  void fail(std::string why) {
    if (status_.ok()) status_ = invalid_argument(where_ + ": " + std::move(why));
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const Json& json_;
  std::string where_;
  Status status_;
};

Result<std::unique_ptr<Signature>> read_signature(const Json& json, const std::string& family,
                                                  Expressions& all) {
  auto signature = std::make_unique<Signature>();
  signature->id = string_or(json, "id", "");
  signature->family = family;
  Entry entry(json, fmt::format("signatures/{}: {}", family, signature->id));
  entry.only({"id", "category", "domain", "retry", "stage", "role", "weight", "tier", "on",
              "pattern", "exception", "frame", "unless", "title", "fix", "collect_next", "gate",
              "match", "near_miss"});
  if (signature->id.empty()) entry.fail("id is missing");
  entry.word("category", category_named, signature->category);
  signature->domain = info(signature->category).domain;
  signature->retry = info(signature->category).retry;
  entry.word("domain", domain_named, signature->domain);
  entry.word("retry", retry_named, signature->retry);
  Stage stage = Stage::kUnknown;
  entry.word("stage", stage_named, stage);
  if (!entry.text("stage").empty()) signature->stage = stage;
  entry.word("role", role_named, signature->role);
  for (const std::string& pattern : texts(json, "pattern")) {
    signature->patterns.push_back(intern(all, pattern));
  }
  entry.word(
      "weight", [](std::string_view word) { return word_named(kWeights, word); },
      signature->weight);
  const std::string on = entry.text("on");
  if (!on.empty() && on != "exception" && on != "line") entry.fail("on = '" + on + "'");
  signature->exception = intern(all, entry.text("exception"));
  signature->frame = intern(all, entry.text("frame"));
  signature->unless = intern(all, entry.text("unless"));
  const bool needs_exception = signature->exception != nullptr || signature->frame != nullptr;
  signature->tier = !needs_exception              ? Tier::kMessage
                    : signature->patterns.empty() ? Tier::kType
                                                  : Tier::kExact;
  entry.word(
      "tier", [](std::string_view word) { return word_named(kTiers, word); }, signature->tier);
  signature->on_lines = on != "exception" && !needs_exception;
  signature->on_exceptions = on != "line";
  if (!needs_exception && signature->patterns.empty()) entry.fail("matches everything");
  signature->title = entry.text("title");
  signature->fix = entry.text("fix");
  signature->collect_next = entry.text("collect_next");
  signature->gate = texts(json, "gate");
  signature->match = texts(json, "match");
  signature->near_miss = texts(json, "near_miss");
  PARAMEDIC_TRY(entry.status());
  return signature;
}

std::string inner_frames(const Exception& exception) {
  std::string text;
  const size_t count = exception.frames.size();
  for (size_t i = count > kInnerFrames ? count - kInnerFrames : 0; i < count; ++i) {
    const Frame& frame = exception.frames[i];
    text += fmt::format("{} {} {}\n", with_slashes(frame.file), frame.function, frame.code);
  }
  return text;
}

// Of two that fit the first wins: the more exact, then the one that names a text, then the first in
// the order of the files.
bool outranks(const Signature* a, const Signature* b) {
  if (a->tier != b->tier) return a->tier > b->tier;
  return !a->patterns.empty() && b->patterns.empty();
}

}  // namespace

std::string subject_of(const Exception& exception) {
  std::string subject(last_component(exception.type));
  if (!exception.message.empty()) subject += ": " + exception.message;
  return subject;
}

std::string headline_of(const Exception& exception) {
  std::string headline = exception.type;
  if (!exception.message.empty()) headline.append(": ").append(first_line(exception.message));
  return headline;
}

const Signature* Catalog::classify(const Exception& exception) const {
  const std::string text = subject_of(exception);
  const Subject subject(text);
  const Subject type(last_component(exception.type));
  std::string frames;
  const Signature* best = nullptr;
  exceptions_.visit(subject, [&](const Sieve::Candidate& candidate) {
    const Signature& signature = *by_rank_[candidate.owner];
    if (signature.exception != nullptr && !signature.exception->fits(type)) return false;
    if (!signature.patterns.empty() && !candidate.part->occurs_in(text)) return false;
    if (signature.unless != nullptr && signature.unless->occurs_in(subject)) return false;
    if (signature.frame != nullptr) {
      if (frames.empty()) frames = inner_frames(exception);
      if (!signature.frame->occurs_in(Subject(frames))) return false;
    }
    best = &signature;
    return true;
  });
  return best;
}

const Signature* Catalog::classify(std::string_view line) const {
  const Subject subject(line);
  const Signature* best = nullptr;
  lines_.visit(subject, [&](const Sieve::Candidate& candidate) {
    const Signature& signature = *by_rank_[candidate.owner];
    if (!candidate.part->occurs_in(line)) return false;
    if (signature.unless != nullptr && signature.unless->occurs_in(subject)) return false;
    best = &signature;
    return true;
  });
  return best;
}

const StageRule* Catalog::first_rule(const Sieve& sieve, std::string_view text) const {
  const StageRule* first = nullptr;
  sieve.visit(Subject(text), [&](const Sieve::Candidate& candidate) {
    if (!candidate.part->occurs_in(text)) return false;
    first = &stages_[candidate.owner];
    return true;
  });
  return first;
}

const StageRule* Catalog::rule_of_frame(std::string_view frame) const {
  return first_rule(frames_of_stages_, frame);
}

const StageRule* Catalog::rule_of_native(std::string_view frame) const {
  return first_rule(natives_of_stages_, frame);
}

const StageRule* Catalog::rule_of_line(std::string_view line) const {
  return first_rule(lines_of_stages_, line);
}

Status Catalog::add_file(const EmbeddedFile& file) {
  const std::string family(file.name.substr(0, file.name.rfind('.')));
  PARAMEDIC_ASSIGN(const Json document,
                   parse_toml(file.text, fmt::format("signatures/{}", file.name)));
  for (const std::string& literal : texts(document, "gate")) {
    if (literal.size() < 4) return invalid_argument("signatures: gate '" + literal + "' is short");
    gate_literals_.push_back(literal);
  }
  if (document.contains("signature")) {
    for (const Json& json : document["signature"]) {
      PARAMEDIC_ASSIGN(auto signature, read_signature(json, family, expressions_));
      signatures_.push_back(std::move(signature));
    }
  }
  if (document.contains("stage")) {
    for (const Json& json : document["stage"]) {
      Entry entry(json, "signatures/" + family + ": stage");
      entry.only({"stage", "telling", "frame", "native", "text", "line"});
      StageRule rule;
      entry.word("stage", stage_named, rule.stage);
      entry.word(
          "telling", [](std::string_view name) { return word_named(kTellings, name); },
          rule.telling);
      rule.frame = intern(expressions_, entry.text("frame"));
      rule.native = intern(expressions_, entry.text("native"));
      rule.text = intern(expressions_, entry.text("text"));
      rule.line = intern(expressions_, entry.text("line"));
      PARAMEDIC_TRY(entry.status());
      stages_.push_back(rule);
    }
  }
  return {};
}

// What has no pattern is known by its type, which stands in an exception's text too.
void Catalog::add_to(Sieve& sieve, bool is_of_exceptions) const {
  for (uint32_t rank = 0; rank < by_rank_.size(); ++rank) {
    const Signature& signature = *by_rank_[rank];
    if (!(is_of_exceptions ? signature.on_exceptions : signature.on_lines)) continue;
    const auto add = [&](const Expression& expression) {
      for (const auto& part : expression.parts()) sieve.add(*part, rank);
    };
    for (const Expression* pattern : signature.patterns) add(*pattern);
    if (!signature.patterns.empty()) continue;
    if (signature.exception != nullptr) {
      add(*signature.exception);
    } else {
      sieve.add_always(rank);
    }
  }
  sieve.finish();
}

void Catalog::build() {
  for (const auto& signature : signatures_) {
    by_rank_.push_back(signature.get());
    gate_literals_.insert(gate_literals_.end(), signature->gate.begin(), signature->gate.end());
  }
  std::stable_sort(by_rank_.begin(), by_rank_.end(), outranks);
  gate_ = std::make_unique<Gate>(gate_literals_);
  add_to(exceptions_, true);
  add_to(lines_, false);
  for (const auto& [sieve, member] : {std::pair{&frames_of_stages_, &StageRule::frame},
                                      std::pair{&natives_of_stages_, &StageRule::native},
                                      std::pair{&lines_of_stages_, &StageRule::line}}) {
    for (uint32_t i = 0; i < stages_.size(); ++i) {
      const Expression* expression = stages_[i].*member;
      if (expression == nullptr) continue;
      for (const auto& part : expression->parts()) sieve->add(*part, i);
    }
    sieve->finish();
  }
}

Status Catalog::check() const {
  const auto check_all = [](const std::string& where,
                            std::span<const Expression* const> expressions) {
    for (const Expression* expression : expressions) {
      const Status status = expression == nullptr ? Status() : expression->check();
      if (!status.ok()) {
        return invalid_argument(
            fmt::format("signatures/{}: {}: {}", where, expression->text(), status.message()));
      }
    }
    return Status();
  };
  for (const auto& signature : signatures_) {
    std::vector<const Expression*> all = signature->patterns;
    all.insert(all.end(), {signature->exception, signature->frame, signature->unless});
    PARAMEDIC_TRY(check_all(signature->family + ": " + signature->id, all));
  }
  for (const StageRule& rule : stages_) {
    PARAMEDIC_TRY(check_all("stage", std::array{rule.frame, rule.native, rule.text, rule.line}));
  }
  return {};
}

Result<Catalog> Catalog::load(std::span<const EmbeddedFile> files) {
  Catalog catalog;
  for (const EmbeddedFile& file : files) PARAMEDIC_TRY(catalog.add_file(file));
  catalog.build();
  return catalog;
}

const Catalog& Catalog::builtin() {
  static const Catalog catalog = []() {
    Result<Catalog> loaded = load(signature_files());
    // The tests load it, so that a program that is built holds a good one.
    PARAMEDIC_CHECK(loaded.ok());
    return std::move(loaded).value();
  }();
  return catalog;
}

}  // namespace paramedic::diagnose
