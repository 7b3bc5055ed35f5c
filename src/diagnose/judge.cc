#include "diagnose/judge.h"

#include <utility>

#include "diagnose/resolve.h"

namespace paramedic::diagnose {

Verdict judge(LiveCrash crash) {
  const Catalog& catalog = Catalog::builtin();
  Timeline timeline;
  timeline.files = {"live"};
  timeline.last_step = crash.step;
  timeline.checkpoint_step = crash.checkpoint_step;
  for (Exception& exception : crash.chain) {
    for (Frame& frame : exception.frames) frame.role = role_of(frame.file);
    exception.has_header = true;
    Event event;
    event.signature = catalog.classify(exception);
    event.role = event.signature == nullptr ? Role::kRoot : event.signature->role;
    event.text = headline_of(exception);
    event.line = timeline.events.size();
    event.rank = crash.rank;
    event.step = crash.step;
    event.exception = std::move(exception);
    timeline.events.push_back(std::move(event));
  }
  return resolve(catalog, std::move(timeline)).verdict;
}

}  // namespace paramedic::diagnose
