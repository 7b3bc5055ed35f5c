#include "diagnose/expression.h"

#include <fmt/format.h>

#include <algorithm>

namespace paramedic::diagnose {
namespace {

// Of memory that one alternative may take for what it has seen: hostile text cannot make all of
// them take more than the machine has.
constexpr int64_t kPartBytes = int64_t{1} << 20;

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

RE2::Options options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_max_mem(kPartBytes);
  return options;
}

uint32_t key_of(const char* text) {
  return static_cast<uint32_t>(static_cast<unsigned char>(text[0])) |
         static_cast<uint32_t>(static_cast<unsigned char>(text[1])) << 8U |
         static_cast<uint32_t>(static_cast<unsigned char>(text[2])) << 16U;
}
static_assert(kLiteralBytesMin == 3);

uint32_t bucket_of(uint32_t key) { return (key * 0x9e3779b1U) >> 20U; }

}  // namespace

const RE2& Part::compiled() const {
  const RE2* known = compiled_.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto made = std::make_unique<const RE2>(alternative_.expression, options());
  // The tests compile all that is built in.
  PARAMEDIC_CHECK(made->ok());
  // Two threads may have come here at once: both go on with the first one's.
  if (compiled_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *known;
}

bool Part::occurs_in(std::string_view text) const {
  return RE2::PartialMatch(piece(text), compiled());
}

bool Part::fits(std::string_view text) const { return RE2::FullMatch(piece(text), compiled()); }

bool Part::may_occur_in(const Subject& subject) const {
  const std::string_view text = subject.folded_text;
  const auto& literals = alternative_.literals;
  return literals.empty() ||
         std::any_of(literals.begin(), literals.end(), [&](const std::string& literal) {
           return text.find(literal) != std::string_view::npos;
         });
}

Status Part::check() const {
  const RE2 made(alternative_.expression, options());
  if (!made.ok()) return invalid_argument(made.error());
  return {};
}

Expression::Expression(std::string text) : text_(std::move(text)) {
  for (Alternative& alternative : alternatives_of(text_)) {
    parts_.push_back(std::make_unique<Part>(std::move(alternative)));
  }
}

bool Expression::occurs_in(const Subject& subject) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) {
    return part->may_occur_in(subject) && part->occurs_in(subject.text);
  });
}

bool Expression::fits(const Subject& subject) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) {
    return part->may_occur_in(subject) && part->fits(subject.text);
  });
}

Status Expression::check() const {
  // The whole of it first: an error is to name what stands in the file.
  const RE2 whole(text_, options());
  if (!whole.ok()) return invalid_argument(whole.error());
  for (const auto& part : parts_) PARAMEDIC_TRY(part->check());
  return {};
}

void Sieve::add(const Part& part, uint32_t owner) {
  const auto index = static_cast<uint32_t>(candidates_.size());
  candidates_.push_back({&part, owner});
  for (const std::string& literal : part.literals()) {
    literals_.push_back({key_of(literal.data()), index, literal});
  }
}

void Sieve::add_always(uint32_t owner) { candidates_.push_back({nullptr, owner}); }

void Sieve::finish() {
  always_.assign((candidates_.size() + kWordBits - 1) / kWordBits, 0);
  for (uint32_t i = 0; i < candidates_.size(); ++i) {
    const Part* part = candidates_[i].part;
    if (part == nullptr || part->literals().empty()) set_bit(always_, i);
  }
  std::sort(literals_.begin(), literals_.end(),
            [](const Literal& a, const Literal& b) { return bucket_of(a.key) < bucket_of(b.key); });
  begins_of_.assign(kBuckets + 1, 0);
  for (const Literal& literal : literals_) ++begins_of_[bucket_of(literal.key) + 1];
  for (size_t i = 0; i < kBuckets; ++i) begins_of_[i + 1] += begins_of_[i];
}

std::vector<uint64_t> Sieve::found_in(std::string_view folded_text) const {
  std::vector<uint64_t> found = always_;
  for (size_t at = 0; at + kLiteralBytesMin <= folded_text.size(); ++at) {
    const std::string_view here = folded_text.substr(at);
    const uint32_t key = key_of(here.data());
    const uint32_t bucket = bucket_of(key);
    for (uint32_t i = begins_of_[bucket]; i < begins_of_[bucket + 1]; ++i) {
      const Literal& literal = literals_[i];
      if (literal.key == key && here.starts_with(literal.text)) set_bit(found, literal.candidate);
    }
  }
  return found;
}

}  // namespace paramedic::diagnose
