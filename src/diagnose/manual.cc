#include "diagnose/manual.h"

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/category.h"
#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr std::string_view kIntroduction =
    "# Diagnosis\n"
    "\n"
    "`paramedic diagnose PATH…` reads the logs of any training job and says why it "
    "failed. This page is made from `data/signatures` by the tests (`UPDATE_GOLDEN=1 "
    "build/dev/tests/diagnose_test` rewrites it); how it works inside: "
    "[0012](design/0012-diagnosis.md).\n"
    "\n"
    "What it reads: files, folders of per-rank logs, globs, `-` for stdin, gzip, zstd and "
    "xz, a run folder. Exit code 0: the cause is found, or there was no failure; 3: the "
    "logs do not tell, and `collect_next` says what would. `--follow` reads a log that still "
    "grows; `--explain` and `--html` show every event with the part that it played.\n"
    "\n"
    "The same library judges each run that fails: the verdict is `failure` of `show --json`, "
    "with the exit code or signal as evidence where the output tells nothing. `paramedic run "
    "--retries N` starts a failed job once more where the verdict's `retry` says that this can "
    "help (`same_node`, `after_delay`), never after the same failure without progress, and asks "
    "for another node (`--other-node`) where the fault lies in this one. `paramedic fleet DIR` "
    "adds up the verdicts of many jobs: categories, stages and root causes with the machine "
    "time that was lost, failures that came back, and retries that only met the same failure "
    "again.\n"
    "\n"
    "## A signature\n"
    "One entry of `data/signatures/<family>.toml`:\n"
    "\n"
    "| key | meaning |\n"
    "|---|---|\n"
    "| `id` | the mechanism; never renamed |\n"
    "| `category`, `domain`, `retry`, `stage` | of the verdict; `domain` and `retry` "
    "follow from the category where they are left out, `stage` from the frames |\n"
    "| `exception` | expression for the last component of an exception's type, in full "
    "|\n"
    "| `pattern` | expressions of which one must occur in the message or line |\n"
    "| `frame` | expression that must occur in one of the four innermost frames (\"file "
    "function code\") |\n"
    "| `unless` | expression that must not occur in the text |\n"
    "| `tier` | `exact` > `type` > `message` > `general` > `fallback`: the higher one "
    "wins. By default `exact` with both exception and pattern, `type` with an exception "
    "alone, else `message` |\n"
    "| `role` | `root` (default), `wrapper`, `cascade`, `teardown`, `advice` |\n"
    "| `weight` | `outright` beats other causes, `symptom` loses to them |\n"
    "| `fix`, `collect_next`, `title` | what the verdict says |\n"
    "| `match`, `near_miss` | at least two excerpts that it must classify, one that it "
    "must not: its tests |\n"
    "\n"
    "## Categories\n"
    "| category | what it means | domain | retry | an example |\n"
    "|---|---|---|---|---|\n";

// The excerpt of the first signature of that category that stands for a cause, on one line.
std::string example_of(const Catalog& catalog, Category category) {
  constexpr size_t kExampleMax = 110;
  for (const bool roots_only : {true, false}) {
    for (const auto& signature : catalog.signatures()) {
      if (signature->category != category || signature->match.empty()) continue;
      if (roots_only && signature->role != Role::kRoot) continue;
      std::string text = signature->match.front();
      const size_t last = text.find_last_of('\n');
      if (last != std::string::npos) text = text.substr(last + 1);
      if (text.size() > kExampleMax) text = text.substr(0, kExampleMax) + "…";
      std::replace(text.begin(), text.end(), '|', '/');
      std::replace(text.begin(), text.end(), '`', '\'');
      return "`" + std::string(trim(text)) + "`";
    }
  }
  return "";
}

}  // namespace

std::string manual(const Catalog& catalog) {
  std::string page(kIntroduction);
  for (int i = 0; i < kCategoryCount; ++i) {
    const CategoryInfo& category = info(static_cast<Category>(i));
    page += fmt::format("| `{}` | {} | {} | {} | {} |\n", category.id, category.title,
                        name(category.domain), name(category.retry),
                        example_of(catalog, category.category));
  }
  page += fmt::format("\n{} signatures know these mechanisms: ", catalog.signatures().size());
  std::string separator;
  for (const auto& signature : catalog.signatures()) {
    page += separator + "`" + signature->id + "`";
    separator = " ";
  }
  return page + ".\n";
}

}  // namespace paramedic::diagnose
