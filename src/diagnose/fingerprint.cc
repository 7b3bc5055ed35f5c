#include "diagnose/fingerprint.h"

#include <fmt/format.h>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

std::string_view module_of(std::string_view file) {
  std::string_view module = base_name(file);
  const size_t dot = module.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? module : module.substr(0, dot);
}

}  // namespace

std::optional<CodePlace> place_of(const Exception& exception) {
  const Frame* found = nullptr;
  for (const Frame& frame : exception.frames) {
    if (frame.role == FrameRole::kUser && !frame.file.starts_with('<')) found = &frame;
  }
  if (found == nullptr && !exception.frames.empty()) found = &exception.frames.back();
  if (found == nullptr || found->role == FrameRole::kNative) return std::nullopt;
  return CodePlace{found->file, found->line, found->function};
}

std::string mechanism_fingerprint(const Verdict& verdict) {
  std::string place = "-";
  if (verdict.where) {
    place = std::string(module_of(verdict.where->file));
    const std::string& function = verdict.where->function;
    if (!function.empty() && function != "<module>") place += "." + function;
  }
  return fmt::format("{}:{}:{}", name(verdict.category), place, verdict.mechanism);
}

std::string exact_fingerprint(const Verdict& verdict, const Exception* exception) {
  std::string text = mechanism_fingerprint(verdict);
  if (exception != nullptr) {
    text += "|" + std::string(last_component(exception->type));
    for (const Frame& frame : exception->frames) {
      text += fmt::format("|{}:{}", module_of(frame.file), frame.function);
    }
    text += "|" + normalized(exception->message);
  } else if (!verdict.evidence.empty()) {
    text += "|" + normalized(verdict.evidence.front().text);
  }
  return fmt::format("{:016x}", stable_hash(text));
}

}  // namespace paramedic::diagnose
