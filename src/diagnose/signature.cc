#include "diagnose/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/toml.h"
#include "diagnose/text.h"

namespace paramedic::diagnose {

// Made by cmake/embed_data.cmake.
std::span<const EmbeddedFile> signature_files();

namespace {

constexpr size_t kInnerFrames = 4;

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

RE2::Options quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
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
  std::unique_ptr<RE2> expression(const char* key) {
    const std::string text_of = text(key);
    if (text_of.empty()) return nullptr;
    auto compiled = std::make_unique<RE2>(text_of, quiet());
    if (!compiled->ok()) fail(fmt::format("{}: {}", key, compiled->error()));
    return compiled;
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

Result<std::unique_ptr<Signature>> read_signature(const Json& json, const std::string& family) {
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
  signature->patterns = texts(json, "pattern");
  entry.word(
      "weight", [](std::string_view word) { return word_named(kWeights, word); },
      signature->weight);
  const std::string on = entry.text("on");
  if (!on.empty() && on != "exception" && on != "line") entry.fail("on = '" + on + "'");
  signature->exception = entry.expression("exception");
  signature->frame = entry.expression("frame");
  signature->unless = entry.expression("unless");
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

bool better(const Signature* challenger, const Signature* holder) {
  return holder == nullptr || challenger->tier > holder->tier;
}

}  // namespace

std::string subject_of(const Exception& exception) {
  std::string subject(last_component(exception.type));
  if (!exception.message.empty()) subject += ": " + exception.message;
  return subject;
}

std::vector<const Signature*> Catalog::Matcher::candidates(std::string_view text) const {
  std::vector<int> hits;
  set->Match(piece(text), &hits);
  // In the order of the files, so that the first of equals wins on every machine.
  std::sort(hits.begin(), hits.end());
  std::vector<const Signature*> found;
  for (const int hit : hits) found.push_back(owners[static_cast<size_t>(hit)]);
  found.insert(found.end(), without_pattern.begin(), without_pattern.end());
  return found;
}

const Signature* Catalog::classify(const Exception& exception) const {
  const std::string subject = subject_of(exception);
  const std::string_view type = last_component(exception.type);
  std::string frames;
  const Signature* best = nullptr;
  for (const Signature* signature : exceptions_.candidates(subject)) {
    if (!better(signature, best)) continue;
    if (signature->exception && !RE2::FullMatch(piece(type), *signature->exception)) continue;
    if (signature->unless && RE2::PartialMatch(subject, *signature->unless)) continue;
    if (signature->frame) {
      if (frames.empty()) frames = inner_frames(exception);
      if (!RE2::PartialMatch(frames, *signature->frame)) continue;
    }
    best = signature;
  }
  return best;
}

const Signature* Catalog::classify(std::string_view line) const {
  const Signature* best = nullptr;
  for (const Signature* signature : lines_.candidates(line)) {
    if (!better(signature, best)) continue;
    if (signature->unless && RE2::PartialMatch(piece(line), *signature->unless)) continue;
    best = signature;
  }
  return best;
}

std::vector<std::string> Catalog::gate_literals() const {
  std::vector<std::string> literals = gate_;
  for (const auto& signature : signatures_) {
    literals.insert(literals.end(), signature->gate.begin(), signature->gate.end());
  }
  return literals;
}

Status Catalog::add_file(const EmbeddedFile& file) {
  const std::string family(file.name.substr(0, file.name.rfind('.')));
  PARAMEDIC_ASSIGN(const Json document,
                   parse_toml(file.text, fmt::format("signatures/{}", file.name)));
  for (const std::string& literal : texts(document, "gate")) {
    if (literal.size() < 4) return invalid_argument("signatures: gate '" + literal + "' is short");
    gate_.push_back(literal);
  }
  if (document.contains("signature")) {
    for (const Json& json : document["signature"]) {
      PARAMEDIC_ASSIGN(auto signature, read_signature(json, family));
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
      rule.frame = entry.expression("frame");
      rule.native = entry.expression("native");
      rule.text = entry.expression("text");
      rule.line = entry.expression("line");
      PARAMEDIC_TRY(entry.status());
      stages_.push_back(std::move(rule));
    }
  }
  return {};
}

Status Catalog::build() {
  constexpr int64_t kSetBytes = int64_t{256} << 20;
  RE2::Options options = quiet();
  options.set_max_mem(kSetBytes);
  for (Matcher* matcher : {&exceptions_, &lines_}) {
    matcher->set = std::make_unique<RE2::Set>(options, RE2::UNANCHORED);
    for (const auto& signature : signatures_) {
      if (matcher == &exceptions_ ? !signature->on_exceptions : !signature->on_lines) continue;
      if (signature->patterns.empty()) matcher->without_pattern.push_back(signature.get());
      for (const std::string& pattern : signature->patterns) {
        std::string error;
        if (matcher->set->Add(pattern, &error) < 0) {
          return invalid_argument(
              fmt::format("signatures/{}: {}: {}", signature->family, signature->id, error));
        }
        matcher->owners.push_back(signature.get());
      }
    }
    if (!matcher->set->Compile()) return exhausted("signatures: too many patterns");
  }
  return {};
}

Result<Catalog> Catalog::load(std::span<const EmbeddedFile> files) {
  Catalog catalog;
  for (const EmbeddedFile& file : files) PARAMEDIC_TRY(catalog.add_file(file));
  PARAMEDIC_TRY(catalog.build());
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
