// The port at which the ranks shall meet belongs to somebody else: as the settings show before they
// meet, or as the rank says that could not open it.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cluster/ends.h"
#include "cluster/hang.h"
#include "cluster/lint/lint_watch.h"

namespace paramedic::cluster {
namespace {

class PortInUse : public LintWatch {
 public:
  explicit PortInUse(Reporter& reporter) : LintWatch(reporter, "port_in_use") {}

  void tick(const Moment& moment) override {
    LintWatch::tick(moment);
    look_at_ends();
  }
  void finish() override {
    LintWatch::finish();
    look_at_ends();
  }

 private:
  // A port that is chosen within the script is in no setting.
  void look_at_ends() {
    if (told_end_ || job().ranks().all().size() < 2) return;
    for (const auto& [number, rank] : job().ranks().all()) {
      if (!rank.exiting || !is_of_taken_port(*rank.exiting)) continue;
      told_end_ = true;
      rules::Finding finding;
      finding.severity = rules::Severity::kError;
      finding.rank = number;
      finding.confidence = 0.95;
      finding.where = where_of(rank.exiting->where);
      finding.message =
          fmt::format("rank {} could not open its port: {}", number, rank.exiting->in_words());
      finding.evidence.emplace_back("the exception that ended it");
      report(std::move(finding), "end");
      return;
    }
  }

  bool told_end_ = false;
};

}  // namespace

WatchEntry port_in_use_watch() {
  return {{"port_in_use",
           rules::Severity::kError,
           "The port of the rendezvous is taken",
           "A process that is neither a rank of the job nor its launcher listens on MASTER_PORT "
           "(or on the port of a static rendezvous of torchrun), as /proc/net/tcp has it: rank 0 "
           "cannot open its store there, and the others may connect to a stranger. Or a rank has "
           "ended with the error that the address is in use.",
           "choose another port, or end the process that holds it (often a job that was not quite "
           "ended)",
           {}},
          &make_watch<PortInUse>};
}

}  // namespace paramedic::cluster
