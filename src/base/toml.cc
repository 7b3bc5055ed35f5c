#include "base/toml.h"

#include <toml++/toml.h>

#include <sstream>

namespace paramedic {
namespace {

Json convert(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = convert(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const auto& value : *array) list.push_back(convert(value));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  std::ostringstream text;  // dates and times: as they are written
  node.visit([&text](const auto& value) { text << value; });
  return text.str();
}

}  // namespace

Result<Json> parse_toml(std::string_view text, std::string_view what) {
  try {
    return convert(toml::parse(text));
  } catch (const toml::parse_error& error) {
    std::ostringstream message;
    message << what << ":" << error.source().begin.line << ":" << error.source().begin.column
            << ": " << error.description();
    return invalid_argument(message.str());
  }
}

}  // namespace paramedic
