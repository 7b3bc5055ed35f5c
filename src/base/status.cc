#include "base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace paramedic {

std::string Status::to_string() const {
  if (ok()) return "ok";
  if (hint_.empty()) return message_;
  return message_ + "\n  hint: " + hint_;
}

int Status::exit_code() const {
  if (ok()) return 0;
  return code_ == StatusCode::kInternal ? 70 : 2;
}

Status invalid_argument(std::string message, std::string hint) {
  return {StatusCode::kInvalidArgument, std::move(message), std::move(hint)};
}
Status not_found(std::string message, std::string hint) {
  return {StatusCode::kNotFound, std::move(message), std::move(hint)};
}
Status corruption(std::string message, std::string hint) {
  return {StatusCode::kCorruption, std::move(message), std::move(hint)};
}
Status unsupported(std::string message, std::string hint) {
  return {StatusCode::kUnsupported, std::move(message), std::move(hint)};
}
Status io_error(std::string message, std::string hint) {
  return {StatusCode::kIoError, std::move(message), std::move(hint)};
}
Status exhausted(std::string message, std::string hint) {
  return {StatusCode::kExhausted, std::move(message), std::move(hint)};
}
Status internal_error(std::string message, std::string hint) {
  return {StatusCode::kInternal, std::move(message), std::move(hint)};
}

Status errno_error(const std::string& what, const std::string& path, int error_number) {
  const char* reason = std::strerror(error_number);
  if (error_number == ENOENT) return not_found(what + " " + path + ": " + reason);
  return io_error(what + " " + path + ": " + reason);
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "paramedic: internal error: %s is false at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace paramedic
