#pragma once
// Parcels into a folder that all nodes share: no network, no port, no token but the folder's own
// permissions. What the collector has found is read from the job's run folder there.

#include <memory>
#include <string>

#include "nodes/transport.h"

namespace paramedic::nodes {

std::unique_ptr<Transport> make_folder_transport(const std::string& folder);

}  // namespace paramedic::nodes
