#pragma once
// Messages for people, on stderr: `paramedic: …`. The logger is the one piece of global state.
// Levels: PARAMEDIC_LOG=debug|info|warn|error (default warn). Thread-safe. Not for the probe.

#include <fmt/format.h>

#include <string_view>

#include "base/status.h"

namespace paramedic::log {

void debug(std::string_view text);
void info(std::string_view text);
void warn(std::string_view text);
void error(std::string_view text);

template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args)
  requires(sizeof...(Args) > 0)
{
  warn(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args)
  requires(sizeof...(Args) > 0)
{
  info(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace paramedic::log
