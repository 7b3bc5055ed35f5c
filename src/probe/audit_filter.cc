// An interpreter raises audit events all the time, several a training step by `id` alone; a hook
// written in Python would cost the job a microsecond for each. This one costs some nanoseconds.

#include <cstring>

#include "probe/probe.h"

int32_t paramedic_audit(const char* event, void* arguments, void* user_data) {
  const auto* watch = static_cast<const paramedic_audit_watch*>(user_data);
  if (watch == nullptr || event == nullptr || watch->on == 0) return 0;
  for (int32_t i = 0; i < watch->count; i++) {
    const char* wanted = watch->events[i];
    // Most events part from those that are watched in their first letter.
    if (wanted[0] == event[0] && std::strcmp(wanted, event) == 0) {
      return watch->follow(event, arguments);
    }
  }
  return 0;
}
