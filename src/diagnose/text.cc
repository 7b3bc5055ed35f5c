#include "diagnose/text.h"

#include <algorithm>
#include <cctype>

#include "base/utf8.h"

namespace paramedic::diagnose {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Bytes of the escape sequence that starts at text[0] == ESC (ECMA-48): control sequences, strings
// such as window titles, and the two-byte forms.
size_t escape_bytes(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {
    size_t i = 2;
    while (i < text.size() && text[i] >= 0x20 && text[i] <= 0x3f) ++i;
    return i < text.size() ? i + 1 : i;
  }
  if (text[1] == ']' || text[1] == 'P' || text[1] == '_' || text[1] == '^') {
    for (size_t i = 2; i < text.size(); ++i) {
      if (text[i] == '\a') return i + 1;
      if (text[i] == '\x1b') return i + 1 < text.size() && text[i + 1] == '\\' ? i + 2 : i;
    }
    return text.size();
  }
  return 2;
}

// A page that shows a log writes some characters as entities, and who copies its source gets them.
void unescape(std::string& text) {
  struct Entity {
    std::string_view name;
    char meaning;
  };
  static constexpr Entity kEntities[] = {{"&quot;", '"'}, {"&lt;", '<'},    {"&gt;", '>'},
                                         {"&#39;", '\''}, {"&#x27;", '\''}, {"&apos;", '\''},
                                         {"&amp;", '&'}};
  size_t to = 0;
  for (size_t from = 0; from < text.size();) {
    size_t taken = 1;
    char meaning = text[from];
    if (meaning == '&') {
      for (const Entity& entity : kEntities) {
        if (text.compare(from, entity.name.size(), entity.name) != 0) continue;
        taken = entity.name.size();
        meaning = entity.meaning;
        break;
      }
    }
    text[to++] = meaning;
    from += taken;
  }
  text.resize(to);
}

}  // namespace

std::string clean_line(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size();) {
    const char c = raw[i];
    if (c == '\x1b') {
      i += escape_bytes(raw.substr(i));
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\t' || byte >= 0x20) {
      if (byte != 0x7f) out += c;
    }
    ++i;
  }
  while (!out.empty() && is_space(out.back())) out.pop_back();
  if (out.find('&') != std::string::npos) unescape(out);
  return is_ascii(out) ? out : valid_utf8(out);
}

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

std::string_view trim(std::string_view text) {
  text = trim_left(text);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

size_t indent_of(std::string_view text) { return text.size() - trim_left(text).size(); }

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view last_component(std::string_view dotted) {
  const size_t dot = dotted.rfind('.');
  std::string_view last = dot == std::string_view::npos ? dotted : dotted.substr(dot + 1);
  const size_t scope = last.rfind("::");
  return scope == std::string_view::npos ? last : last.substr(scope + 2);
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string with_slashes(std::string_view path) {
  std::string spelt(path);
  std::replace(spelt.begin(), spelt.end(), '\\', '/');
  return spelt;
}

std::string normalized(std::string_view message) {
  std::string out;
  for (size_t i = 0; i < message.size();) {
    const char c = message[i];
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 && (i == 0 || !is_word(message[i - 1]))) {
      // 0x7f…, 12.5, 1e-4, 3fa85f64-…: one mark.
      while (i < message.size() && (is_word(message[i]) || message[i] == '.')) ++i;
      out += '#';
    } else if (c == '/' && i + 1 < message.size() && is_word(message[i + 1]) &&
               (i == 0 || !is_word(message[i - 1]))) {
      size_t end = i;
      while (end < message.size() && !is_space(message[end]) && message[end] != '\'' &&
             message[end] != '"' && message[end] != ':' && message[end] != ',') {
        ++end;
      }
      out += base_name(message.substr(i, end - i));
      i = end;
    } else {
      out += is_space(c) || c == '\n' ? ' ' : c;
      ++i;
    }
  }
  return out;
}

uint64_t stable_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  return hash;
}

}  // namespace paramedic::diagnose
