#include "nodes/job_name.h"

#include <array>
#include <cctype>
#include <string_view>

namespace paramedic::nodes {
namespace {

constexpr size_t kNameBytesMax = 90;

struct Scheduler {
  const char* name;
  const char* variable;
};
// What comes first is nearer to the job: Ray and TorchX run inside of the others.
constexpr std::array kSchedulers = {
    Scheduler{"ray", "RAY_JOB_ID"},     Scheduler{"torchx", "TORCHX_JOB_ID"},
    Scheduler{"slurm", "SLURM_JOB_ID"}, Scheduler{"flux", "FLUX_JOB_ID"},
    Scheduler{"pbs", "PBS_JOBID"},      Scheduler{"lsf", "LSB_JOBID"},
    Scheduler{"mpi", "PMIX_NAMESPACE"}, Scheduler{"sagemaker", "TRAINING_JOB_NAME"},
};

}  // namespace

std::string job_name(const Variable& variable) {
  for (const Scheduler& scheduler : kSchedulers) {
    const char* value = variable(scheduler.variable);
    if (value == nullptr || *value == '\0') continue;
    std::string name = std::string(scheduler.name) + "-";
    for (const char c : std::string_view(value).substr(0, kNameBytesMax)) {
      const bool is_plain =
          std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
      name += is_plain ? c : '_';
    }
    return name;
  }
  return "";
}

}  // namespace paramedic::nodes
