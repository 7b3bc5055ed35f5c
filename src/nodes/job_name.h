#pragma once
// What a job is called on all of its nodes, where its scheduler has told each of them. Pure.

#include <functional>
#include <string>

namespace paramedic::nodes {

// The value of a variable of the environment; nullptr when it is not set.
using Variable = std::function<const char*(const char* name)>;

// "slurm-4711", usable as the name of a folder; "" where no scheduler has told anything that is the
// same on all nodes, as in Kubernetes.
std::string job_name(const Variable& variable);

}  // namespace paramedic::nodes
