#pragma once
// What is known about failures, as data: data/signatures/*.toml (described in docs/diagnosis.md).
// A catalog is immutable once loaded and safe in any number of threads.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_file.h"
#include "base/status.h"
#include "diagnose/category.h"
#include "diagnose/expression.h"
#include "diagnose/gate.h"
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
  // The catalog's expressions; null where there is none.
  std::vector<const Expression*> patterns;  // any of them, in the message or line; none: any text
  const Expression* exception = nullptr;    // the last component of the type, in full
  const Expression* frame = nullptr;        // in the innermost frames
  const Expression* unless = nullptr;       // not in the text
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
  const Expression* frame = nullptr;
  const Expression* native = nullptr;
  const Expression* text = nullptr;
  const Expression* line = nullptr;
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
  // The first of them that fits, or null.
  [[nodiscard]] const StageRule* rule_of_frame(std::string_view frame) const;
  [[nodiscard]] const StageRule* rule_of_native(std::string_view frame) const;
  [[nodiscard]] const StageRule* rule_of_line(std::string_view line) const;
  // What a line must hold to be worth a look.
  [[nodiscard]] const Gate& gate() const { return *gate_; }
  // Compiles every expression, which a search does only when it needs one: the tests call it.
  [[nodiscard]] Status check() const;

 private:
  Status add_file(const EmbeddedFile& file);
  void build();
  void add_to(Sieve& sieve, bool is_of_exceptions) const;
  [[nodiscard]] const StageRule* first_rule(const Sieve& sieve, std::string_view text) const;

  std::map<std::string, Expression, std::less<>> expressions_;  // each once, by its text
  std::vector<std::unique_ptr<Signature>> signatures_;
  std::vector<const Signature*> by_rank_;  // the one that wins first
  std::vector<StageRule> stages_;
  std::vector<std::string> gate_literals_;
  std::unique_ptr<Gate> gate_;
  // Owners are indices of by_rank_ or stages_.
  Sieve exceptions_;
  Sieve lines_;
  Sieve frames_of_stages_;
  Sieve natives_of_stages_;
  Sieve lines_of_stages_;
};

// The text that an exception's patterns see: "Type: message".
std::string subject_of(const Exception& exception);

// The whole type, and the first line of the message.
std::string headline_of(const Exception& exception);

}  // namespace paramedic::diagnose
