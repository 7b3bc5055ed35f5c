#pragma once
// The regular expressions of signatures and stages (RE2 syntax), each compiled when a text first
// holds what it needs: most never are. Any number of threads may search at once; what is compiled
// stays until the end.

#include <re2/re2.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "diagnose/literals.h"

namespace paramedic::diagnose {

// A text that many expressions are looked for in. `text` has to live as long.
struct Subject {
  explicit Subject(std::string_view subject) : text(subject), folded_text(folded(subject)) {}
  std::string_view text;
  std::string folded_text;
};

// One alternative of an expression.
class Part {
 public:
  explicit Part(Alternative alternative) : alternative_(std::move(alternative)) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() { delete compiled_.load(); }

  [[nodiscard]] bool occurs_in(std::string_view text) const;
  [[nodiscard]] bool fits(std::string_view text) const;
  // Whether `subject` holds what a match has to.
  [[nodiscard]] bool may_occur_in(const Subject& subject) const;
  [[nodiscard]] const std::vector<std::string>& literals() const { return alternative_.literals; }
  [[nodiscard]] Status check() const;

 private:
  const RE2& compiled() const;

  const Alternative alternative_;
  mutable std::atomic<const RE2*> compiled_{nullptr};
};

class Expression {
 public:
  explicit Expression(std::string text);

  [[nodiscard]] bool occurs_in(const Subject& subject) const;
  // The whole of it.
  [[nodiscard]] bool fits(const Subject& subject) const;
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Part>>& parts() const { return parts_; }
  // Compiles all of it: an error says what is wrong with it.
  [[nodiscard]] Status check() const;

 private:
  std::string text_;
  std::vector<std::unique_ptr<Part>> parts_;
};

// Which parts of many expressions may occur in a text: one pass over it, whatever their number.
class Sieve {
 public:
  // `owner` is given back with the part, which has to outlive the sieve.
  void add(const Part& part, uint32_t owner);
  // Stands for an owner that every text is of interest to.
  void add_always(uint32_t owner);
  // After the last.
  void finish();

  struct Candidate {
    const Part* part = nullptr;  // null: always one
    uint32_t owner = 0;
  };
  // The candidates in the order in which they were added, until `visit` returns true.
  template <typename Visit>
  void visit(const Subject& subject, Visit visit) const {
    const std::vector<uint64_t> found = found_in(subject.folded_text);
    for (size_t word = 0; word < found.size(); ++word) {
      for (uint64_t bits = found[word]; bits != 0; bits &= bits - 1) {
        const size_t index = word * kWordBits + static_cast<size_t>(__builtin_ctzll(bits));
        if (visit(candidates_[index])) return;
      }
    }
  }

 private:
  struct Literal {
    uint32_t key = 0;  // its first bytes
    uint32_t candidate = 0;
    std::string_view text;
  };
  static constexpr size_t kBuckets = 4096;
  static constexpr size_t kWordBits = 64;

  static void set_bit(std::vector<uint64_t>& bits, uint32_t index) {
    bits[index / kWordBits] |= uint64_t{1} << (index % kWordBits);
  }
  // A bit for each candidate.
  [[nodiscard]] std::vector<uint64_t> found_in(std::string_view folded_text) const;

  std::vector<Candidate> candidates_;
  std::vector<uint64_t> always_;     // bits of those that every text is of interest to
  std::vector<Literal> literals_;    // by bucket
  std::vector<uint32_t> begins_of_;  // of each bucket, and the end of the last
};

}  // namespace paramedic::diagnose
