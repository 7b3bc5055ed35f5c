#include "diagnose/diagnose.h"

#include <utility>

#include "diagnose/input.h"
#include "diagnose/run.h"
#include "diagnose/scan.h"

namespace paramedic::diagnose {

Result<Diagnosis> diagnose_paths(const std::vector<std::string>& paths) {
  if (paths.size() == 1 && is_run_folder(paths.front())) return diagnose_run(paths.front());
  PARAMEDIC_ASSIGN(const Inputs inputs, find_inputs(paths));
  if (inputs.found.empty()) {
    return not_found("diagnose: no log in " + (paths.empty() ? "no path" : paths.front()),
                     inputs.skipped.empty() ? "" : "skipped " + inputs.skipped.front());
  }
  Scanner scanner(Catalog::builtin());
  for (const Input& input : inputs.found) {
    PARAMEDIC_ASSIGN(const auto source, open_input(input.path));
    PARAMEDIC_TRY(scanner.scan(input.path, input.rank, *source));
  }
  return resolve(Catalog::builtin(), scanner.take());
}

Diagnosis diagnose_text(const std::string& name, std::string text) {
  Scanner scanner(Catalog::builtin());
  const auto source = text_source(std::move(text));
  const Status status = scanner.scan(name, rank_of_path(name), *source);
  PARAMEDIC_CHECK(status.ok());  // text in memory cannot fail to be read
  return resolve(Catalog::builtin(), scanner.take());
}

}  // namespace paramedic::diagnose
