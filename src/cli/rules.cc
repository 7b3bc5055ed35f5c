#include "rules/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/command.h"
#include "cli/render_json.h"
#include "cli/render_text.h"
#include "cli/runs.h"
#include "cli/text.h"
#include "cluster/cluster.h"

namespace paramedic::cli {
namespace {

Json rule_json(const rules::RuleInfo& rule) {
  Json parameters = Json::array();
  for (const rules::ParameterInfo& parameter : rule.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"default", parameter.default_value},
                          {"min", parameter.min},
                          {"max", parameter.max},
                          {"what", parameter.what}});
  }
  return {{"id", rule.id},       {"severity", rules::severity_name(rule.severity)},
          {"title", rule.title}, {"what", rule.what},
          {"fix", rule.fix},     {"parameters", std::move(parameters)}};
}

Result<int> list(const Arguments& arguments, Console& console) {
  if (arguments.flag("json")) {
    Json all = Json::array();
    for (const rules::RuleInfo& rule : cluster::all_rules()) all.push_back(rule_json(rule));
    console.out << to_text({{"schema", kJsonSchema}, {"rules", std::move(all)}}) << "\n";
    return 0;
  }
  int id_width = 0;
  for (const rules::RuleInfo& rule : cluster::all_rules()) {
    id_width = std::max(id_width, display_width(rule.id));
  }
  const Paint paint(console.color_out);
  for (const rules::RuleInfo& rule : cluster::all_rules()) {
    const int title_width = std::max(console.width - id_width - 11, 20);
    bool first = true;
    for (const std::string& part : wrap(rule.title, title_width)) {
      console.out << (first ? paint(Style::kBold, pad(rule.id, id_width)) + "  " +
                                  pad(rules::severity_name(rule.severity), 7)
                            : std::string(id_width + 9, ' '))
                  << "  " << part << "\n";
      first = false;
    }
  }
  return 0;
}

Result<const rules::RuleInfo*> find_rule(const std::string& id) {
  std::vector<std::string> ids;
  for (const rules::RuleInfo& rule : cluster::all_rules()) {
    if (id == rule.id) return &rule;
    ids.emplace_back(rule.id);
  }
  const std::string meant = closest(id, ids);
  return not_found(fmt::format("there is no rule '{}'", clean(id)),
                   meant.empty() ? "`paramedic rules list` lists the rules"
                                 : fmt::format("did you mean {}?", meant));
}

Result<int> explain(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const rules::RuleInfo* rule, find_rule(arguments.positional("ID")));
  if (arguments.flag("json")) {
    console.out << to_text({{"schema", kJsonSchema}, {"rule", rule_json(*rule)}}) << "\n";
    return 0;
  }
  const Paint paint(console.color_out);
  const auto paragraph = [&](const char* title, const char* text) {
    console.out << "\n" << paint(Style::kBold, title) << "\n";
    for (const std::string& line : wrap(text, console.width - 2))
      console.out << "  " << line << "\n";
  };
  console.out << paint(Style::kBold, rule->id) << "  " << rules::severity_name(rule->severity)
              << "\n";
  for (const std::string& line : wrap(rule->title, console.width)) console.out << line << "\n";
  paragraph("when it fires", rule->what);
  paragraph("what to do", rule->fix);
  if (rule->parameters.empty()) return 0;
  console.out << "\n" << paint(Style::kBold, "parameters") << "\n";
  for (const rules::ParameterInfo& parameter : rule->parameters) {
    console.out << fmt::format("  {} = {:g}  (from {:g} to {:g})\n", parameter.name,
                               parameter.default_value, parameter.min, parameter.max);
    for (const std::string& line : wrap(parameter.what, console.width - 6)) {
      console.out << "      " << line << "\n";
    }
  }
  return 0;
}

// The newest finding of each key, in the order in which the keys first appeared.
class Collected : public rules::FindingSink {
 public:
  void on_finding(const std::string& key, const rules::Finding& finding) override {
    const auto [known, is_new] = index_of_.try_emplace(key, problems_.size());
    if (is_new) problems_.emplace_back();
    problems_[known->second].finding = finding;
  }
  [[nodiscard]] std::vector<Problem> take() { return std::move(problems_); }

 private:
  std::map<std::string, size_t> index_of_;
  std::vector<Problem> problems_;
};

Result<int> replay(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const auto reader, open_run(arguments, console));
  Collected collected;
  const auto engine = rules::Engine::create(collected);
  PARAMEDIC_TRY(reader->replay(*engine));
  // A job that goes on has not told all; the rules that wait for the end wait here too.
  if (reader->info().status != "running" && reader->info().status != "paused") engine->finish();
  std::vector<Problem> problems = collected.take();
  sort_problems(problems);
  if (arguments.flag("json")) {
    Json findings = Json::array();
    for (const Problem& problem : problems) findings.push_back(problem.finding.to_json());
    console.out << to_text({{"schema", kJsonSchema}, {"findings", std::move(findings)}}) << "\n";
    return 0;
  }
  const Paint paint(console.color_out);
  if (problems.empty()) console.out << "no finding\n";
  for (const Problem& problem : problems) {
    console.out << problem_line(problem.finding, paint) << "\n";
    for (const std::string& line : wrap(clean(problem.finding.message), console.width - 4)) {
      console.out << "    " << line << "\n";
    }
  }
  return 0;
}

}  // namespace

Command rules_command() {
  Command command;
  command.name = "rules";
  command.summary = "the built-in rules, and their judgement of a stored run";
  command.about = "Lists and explains the rules that watch a run, or runs them over a stored one.";
  command.subcommands = {
      {.name = "list",
       .summary = "all rules",
       .about = "Lists the rules with their severity.",
       .options = {json_option()},
       .run = list},
      {.name = "explain",
       .summary = "when a rule fires, and what to do then",
       .about = "Explains one rule: when it fires and why, what to do, and its parameters.",
       .options = {json_option()},
       .positionals = {{"ID", "id of the rule", true}},
       .examples = {{"paramedic rules explain vanishing_gradient", "one rule"}},
       .run = explain},
      {.name = "replay",
       .summary = "the rules over a stored run",
       .about = "Runs the rules over the stored rows of a run and prints what they find: the same "
                "as while the job ran. Nothing is stored.",
       .options = {json_option(), dir_option()},
       .positionals = {{"RUN", "a name in --dir or a path; the newest run when left out"}},
       .examples = {{"paramedic rules replay digits-3", "one run"}},
       .run = replay}};
  return command;
}

}  // namespace paramedic::cli
