// What the ranks of a run were started with, judged when all of them are there.

#include "cluster/lint/lint_watch.h"

namespace paramedic::cluster {
namespace {

class ClusterConfig : public LintWatch {
 public:
  explicit ClusterConfig(Reporter& reporter) : LintWatch(reporter, "cluster_config") {}
};

}  // namespace

WatchEntry cluster_config_watch() {
  return {{"cluster_config",
           rules::Severity::kError,
           "The configuration of the ranks does not fit together",
           "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, *_SOCKET_IFNAME, TF_CONFIG and the options "
           "of launchers, as the processes of the job really have them, break a rule of "
           "`paramedic cluster lint`: a rank that runs twice or is out of range, a port or address "
           "that differs on one rank, a name that cannot be resolved, an interface that does not "
           "exist. What only might do harm is told as info.",
           "set the variable that is named to the same sound value on all ranks",
           {}},
          &make_watch<ClusterConfig>};
}

}  // namespace paramedic::cluster
