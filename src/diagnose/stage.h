#pragma once
// Which phase of the job failed: from the frames, else from what the log said before.

#include <vector>

#include "diagnose/event.h"
#include "diagnose/signature.h"

namespace paramedic::diagnose {

struct StageFound {
  Stage stage = Stage::kUnknown;
  Telling telling = Telling::kNothing;
};

// What the frames tell together.
StageFound stage_of_frames(const Catalog& catalog, const Exception& exception);
// The stack that was printed behind a line, or around it; null where there is none.
const Exception* dump_of(const Timeline& timeline, const Event& line);
// The exceptions that followed from that of `event`, one of the timeline's, in order.
std::vector<const Exception*> rest_of_chain(const Timeline& timeline, const Event& event);
// `event` is one of the timeline's: where its own frames say nothing, those of the exceptions that
// followed from it do.
Stage stage_of(const Catalog& catalog, const Timeline& timeline, const Event& event);

}  // namespace paramedic::diagnose
