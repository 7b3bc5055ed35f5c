#pragma once
// From events to a verdict: which event is the cause, which are its consequences, who failed
// first. Pure.

#include <vector>

#include "diagnose/event.h"
#include "diagnose/signature.h"
#include "diagnose/verdict.h"

namespace paramedic::diagnose {

struct Diagnosis {
  Verdict verdict;
  std::vector<Verdict> other;  // further causes that the log shows, less likely ones last
  // The events with the role they turned out to have, for --explain; indices are those of the
  // timeline.
  Timeline timeline;
};

Diagnosis resolve(const Catalog& catalog, Timeline timeline);

}  // namespace paramedic::diagnose
