#pragma once
// What is known about failures, as data: data/signatures/*.toml (described in docs/diagnosis.md).
// A catalog is immutable once loaded and safe in any number of threads.

#include <re2/re2.h>
#include <re2/set.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_file.h"
#include "base/status.h"
#include "diagnose/category.h"
#include "diagnose/traceback.h"

namespace paramedic::diagnose {

// How exactly a signature knows what it says: a more exact one outranks the others.
enum class Tier : uint8_t {
  kFallback,  // of a type that says little, such as RuntimeError
  kGeneral,   // words that many messages share
  kMessage,   // the text of one error
  kType,      // an exception type that decides alone, whatever its message is
  kExact,     // text that says more than the type, or text in its context
};

// How much an event says about the cause.
enum class Weight : uint8_t {
  kSymptom,   // the job was hit, by what is not said: "killed", a watchdog
  kCause,     // what failed
  kOutright,  // beats whatever else the log shows: a faulty device, the scheduler's word
};

struct Signature {
  std::string id;  // the mechanism
  std::string family;
  Category category = Category::kUnknown;
  Domain domain = Domain::kUnknown;
  Retry retry = Retry::kUnknown;
  std::optional<Stage> stage;
  Role role = Role::kRoot;
  Weight weight = Weight::kCause;
  Tier tier = Tier::kMessage;
  bool on_exceptions = true;
  bool on_lines = true;
  std::vector<std::string> patterns;  // any of them, in the message or line; none: any text
  std::unique_ptr<RE2> exception;     // the last component of the type, in full
  std::unique_ptr<RE2> frame;         // in the innermost frames
  std::unique_ptr<RE2> unless;        // not in the text
  std::string title;
  std::string fix;
  std::string collect_next;
  std::vector<std::string> gate;  // literals of lines that the common ones don't find
  std::vector<std::string> match;
  std::vector<std::string> near_miss;
};

// How much a frame says about the stage.
enum class Telling : uint8_t {
  kNothing,
  kHint,     // the name of a script: it may do anything
  kSetting,  // a phase that has others inside it: a whole run of training holds the reading of data
  kAct,      // one act that belongs to one phase, and what it calls with it
};

// A pattern that tells the stage: of a frame ("file | function | code"), of a native one ("library
// | symbol | "), of the text of the failure itself or of a line of the log.
struct StageRule {
  Stage stage = Stage::kUnknown;
  Telling telling = Telling::kAct;
  std::unique_ptr<RE2> frame;
  std::unique_ptr<RE2> native;
  std::unique_ptr<RE2> text;
  std::unique_ptr<RE2> line;
};

class Catalog {
 public:
  // An error names the file and the entry.
  static Result<Catalog> load(std::span<const EmbeddedFile> files);
  // The one inside the program; loaded once.
  static const Catalog& builtin();

  // The most exact signature of an exception or a line, or null.
  [[nodiscard]] const Signature* classify(const Exception& exception) const;
  [[nodiscard]] const Signature* classify(std::string_view line) const;

  [[nodiscard]] std::span<const std::unique_ptr<Signature>> signatures() const {
    return signatures_;
  }
  [[nodiscard]] std::span<const StageRule> stages() const { return stages_; }
  // What a line must hold to be worth a look (gate.h).
  [[nodiscard]] std::vector<std::string> gate_literals() const;

 private:
  struct Matcher {
    std::unique_ptr<RE2::Set> set;
    std::vector<const Signature*> owners;  // of each pattern of the set
    std::vector<const Signature*> without_pattern;
    [[nodiscard]] std::vector<const Signature*> candidates(std::string_view text) const;
  };

  Status add_file(const EmbeddedFile& file);
  Status build();

  std::vector<std::unique_ptr<Signature>> signatures_;
  std::vector<StageRule> stages_;
  std::vector<std::string> gate_;
  Matcher exceptions_;
  Matcher lines_;
};

// The text that an exception's patterns see: "Type: message".
std::string subject_of(const Exception& exception);

}  // namespace paramedic::diagnose
