#pragma once
// What another native function does for a gate (gate.cc), so that the framework calls one of ours
// and not two. Called with the GIL held.

#include "probe/probe.h"

namespace paramedic::probe {

// `optimizer` is about to step; false when Python raised.
bool gate_step(paramedic_gate& gate, void* optimizer);

}  // namespace paramedic::probe
