#include "cli/capture.h"

#include <fmt/format.h>

#include "probe/plan.h"

namespace paramedic::cli {
namespace {

std::string plan_word(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return to_text(value);
  std::string joined;
  for (const Json& item : value) joined += (joined.empty() ? "" : ",") + plan_word(item);
  return joined;
}

// The tables of [capture] as lines of a plan. A regex goes to the end of its line, where the plan
// wants it.
Result<std::string> plan_of_tables(const Json& tables, const std::string& file) {
  std::string text;
  for (const auto& [name, table] : tables.items()) {
    if (!table.is_object()) {
      return invalid_argument(fmt::format("{}: capture.{} is not a table", file, name),
                              "a collection is written [capture.NAME] with kind, interval, …");
    }
    text += "collection " + name;
    for (const auto& [key, value] : table.items()) {
      if (key != "regex") text += " " + key + "=" + plan_word(value);
    }
    if (const auto regex = table.find("regex"); regex != table.end()) {
      text += " regex=" + plan_word(*regex);
    }
    text += '\n';
  }
  return text;
}

Result<std::string> plan_text(const Arguments& arguments, FileSystem& files) {
  const Value& option = arguments.option("capture");
  if (option.given && !option.text.empty()) {
    // Every line of a plan has a blank in it; a single word is meant as a file.
    if (files.exists(option.text)) return files.read(option.text);
    if (option.text.find_first_of(" \n") == std::string::npos) {
      return not_found(fmt::format("--capture: there is no file {}", option.text),
                       "or give the lines themselves: --capture 'collection g kind=gradient "
                       "interval=1'");
    }
    return option.text;
  }
  const Json& values = arguments.config().values;
  const auto tables = values.find("capture");
  if (tables == values.end() || !tables->is_object()) return std::string();
  return plan_of_tables(*tables, arguments.config().path);
}

}  // namespace

Result<std::string> capture_plan(const Arguments& arguments, FileSystem& files) {
  PARAMEDIC_ASSIGN(const std::string text, plan_text(arguments, files));
  const Result<probe::Plan> plan = probe::parse_plan(text);
  if (!plan.ok()) return plan.status();
  return text;
}

}  // namespace paramedic::cli
