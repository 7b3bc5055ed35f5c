// The port at which the ranks shall meet belongs to somebody else.

#include "cluster/lint/lint_watch.h"

namespace paramedic::cluster {
namespace {

class PortInUse : public LintWatch {
 public:
  explicit PortInUse(Reporter& reporter) : LintWatch(reporter, "port_in_use") {}
};

}  // namespace

WatchEntry port_in_use_watch() {
  return {{"port_in_use",
           rules::Severity::kError,
           "The port of the rendezvous is taken",
           "A process that is neither a rank of the job nor its launcher listens on MASTER_PORT "
           "(or on the port of a static rendezvous of torchrun), as /proc/net/tcp has it: rank 0 "
           "cannot open its store there, and the others may connect to a stranger.",
           "choose another port, or end the process that holds it (often a job that was not quite "
           "ended)",
           {}},
          &make_watch<PortInUse>};
}

}  // namespace paramedic::cluster
