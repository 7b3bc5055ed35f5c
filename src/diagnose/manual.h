#pragma once
// docs/diagnosis.md: what the categories are, each with an example, made from the data so that the
// page cannot say anything else than the program does.

#include <string>

#include "diagnose/signature.h"

namespace paramedic::diagnose {

std::string manual(const Catalog& catalog);

}  // namespace paramedic::diagnose
