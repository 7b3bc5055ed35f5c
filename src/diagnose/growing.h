#pragma once
// The diagnosis of a log that is still being written: it is read as it grows. Blocking; Linux only,
// as the rest of the program.

#include <string>

#include "base/status.h"
#include "diagnose/resolve.h"

namespace paramedic::diagnose {

struct GrowingOptions {
  int interrupt_fd = -1;  // becomes readable: judge what there is now
  int poll_ms = 200;
  // How long nothing must be added before a cause is believed to be the end of the story.
  int settle_ms = 3000;
};

// Returns when nobody has the file open for writing any more, when the log shows a cause and
// nothing follows, or when it is interrupted. Who has a file open is told only to its owner. A pipe
// ends by itself.
Result<Diagnosis> diagnose_growing(const std::string& path, const GrowingOptions& options);

}  // namespace paramedic::diagnose
