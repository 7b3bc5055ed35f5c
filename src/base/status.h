#pragma once
// Status and Result<T>: how every fallible call of the project answers. No exceptions of our own.
// A Status is a value: copying it is cheap when ok, and it may be passed between threads freely.

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace paramedic {

// The code decides the exit code at the edge (`exit_code` below); the message is for people.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,  // the caller's input is wrong: usage, configuration, a name taken
  kNotFound,         // a file, run, table or id that does not exist
  kCorruption,       // stored bytes are damaged
  kUnsupported,      // valid, but of a newer version or built without it
  kIoError,          // the operating system refused: disk full, permission, network
  kExhausted,        // a named limit was reached
  kInternal,         // a fault of Paramedic's own
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, std::string hint = {})
      : code_(code), message_(std::move(message)), hint_(std::move(hint)) {}

  [[nodiscard]] bool ok() const { return code_ == StatusCode::kOk; }
  [[nodiscard]] StatusCode code() const { return code_; }
  // What failed, on which object, with the value seen: "store: batch checksum mismatch in …".
  [[nodiscard]] const std::string& message() const { return message_; }
  // What the reader can do about it; may be empty.
  [[nodiscard]] const std::string& hint() const { return hint_; }
  // "message\n  hint: …", as shown to people.
  [[nodiscard]] std::string to_string() const;
  // 0 when ok, 70 for kInternal, else 2 (contract.md, exit codes).
  [[nodiscard]] int exit_code() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::string hint_;
};

Status invalid_argument(std::string message, std::string hint = {});
Status not_found(std::string message, std::string hint = {});
Status corruption(std::string message, std::string hint = {});
Status unsupported(std::string message, std::string hint = {});
Status io_error(std::string message, std::string hint = {});
Status exhausted(std::string message, std::string hint = {});
Status internal_error(std::string message, std::string hint = {});
// An I/O error from errno: "WHAT PATH: No space left on device".
Status errno_error(const std::string& what, const std::string& path, int error_number);

// A value or the Status that says why there is none. Reading the value of a failed Result aborts:
// it is a programming error, and outside the training process we fail fast.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) std::abort();
  }

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }

 private:
  T& checked() {
    if (!value_) std::abort();
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace paramedic

// Returns from the calling function with the Status of `expr` unless it is ok.
#define PARAMEDIC_TRY(expr)                                                \
  do {                                                                     \
    if (::paramedic::Status status_of_try = (expr); !status_of_try.ok()) { \
      return status_of_try;                                                \
    }                                                                      \
  } while (false)

#define PARAMEDIC_CONCAT_INNER(a, b) a##b
#define PARAMEDIC_CONCAT(a, b) PARAMEDIC_CONCAT_INNER(a, b)

// PARAMEDIC_ASSIGN(auto x, f()): assigns the value of a Result, or returns its Status. The target
// may be a declaration, which parentheses would break.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define PARAMEDIC_ASSIGN(target, expr) \
  PARAMEDIC_ASSIGN_INNER(PARAMEDIC_CONCAT(result_of_assign_, __LINE__), target, expr)
#define PARAMEDIC_ASSIGN_INNER(result, target, expr) \
  auto result = (expr);                              \
  if (!result.ok()) return result.status();          \
  target = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)

// Checks an invariant in every build, outside the training process: prints and aborts.
#define PARAMEDIC_CHECK(condition)                                               \
  do {                                                                           \
    if (!(condition)) ::paramedic::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)

namespace paramedic {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}  // namespace paramedic
