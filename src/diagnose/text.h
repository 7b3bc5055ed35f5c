#pragma once
// Pure functions on the text of log lines.

#include <cstdint>
#include <string>
#include <string_view>

namespace paramedic::diagnose {

// A line as people read it: escape sequences and control characters removed, malformed UTF-8
// replaced by U+FFFD, spaces at the end cut.
std::string clean_line(std::string_view raw);

std::string_view trim_left(std::string_view text);
std::string_view trim(std::string_view text);
// The line with which Python begins one, without its colon.
inline constexpr std::string_view kTracebackHeader = "Traceback (most recent call last)";
// Number of spaces and tabs at the start.
size_t indent_of(std::string_view text);
bool contains(std::string_view text, std::string_view part);

// "torch.cuda.OutOfMemoryError" → "OutOfMemoryError".
std::string_view last_component(std::string_view dotted);
// The last part of a path of either kind of system.
std::string_view base_name(std::string_view path);
// A path of Windows as the expressions of signatures and stages spell paths.
std::string with_slashes(std::string_view path);

// What the same failure says in another job: numbers, addresses, ids and shapes are replaced, of
// paths only the last part is kept.
std::string normalized(std::string_view message);

// FNV-1a. The value is part of fingerprints that users store: never changed.
uint64_t stable_hash(std::string_view text);

}  // namespace paramedic::diagnose
