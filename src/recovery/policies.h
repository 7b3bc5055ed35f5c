#pragma once
// What is done about a crash when nobody is asked: a table of patterns and remedies, data in
// data/policies/*.toml (docs/recovery.md). Immutable once made; any thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/embedded_file.h"
#include "recovery/crash.h"
#include "recovery/repair.h"

namespace paramedic::recovery {

// One thing to try.
struct Remedy {
  std::string policy;  // its id: the name of its file
  std::string title;   // what is wrong, for people
  std::string tell;    // what a person could do meanwhile; may be empty
  Repair repair;
  int64_t pause_ns = 0;  // before it is tried
};

class Policies {
 public:
  // Those of data/policies, a part of the program.
  static const Policies& builtin();
  // kInvalidArgument with file and key where one cannot be used.
  static Result<Policies> parse(std::span<const EmbeddedFile> files);
  Policies(const Policies&) = delete;
  Policies& operator=(const Policies&) = delete;
  Policies(Policies&&) noexcept;
  Policies& operator=(Policies&&) noexcept;
  ~Policies();

  // What to try when this crash has to be dealt with for the `attempt`-th time (from 0) without
  // progress in between. Nothing when no policy fits, or the first that does has tried everything.
  [[nodiscard]] std::optional<Remedy> remedy(const Crash& crash, int attempt) const;
  // In the order in which they are tried.
  [[nodiscard]] std::vector<std::string> ids() const;

 private:
  struct Policy;
  explicit Policies(std::vector<Policy> policies);
  std::vector<Policy> policies_;
};

// The files of data/policies.
std::span<const EmbeddedFile> policy_files();

}  // namespace paramedic::recovery
