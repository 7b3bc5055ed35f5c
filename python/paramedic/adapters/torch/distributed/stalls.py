"""What torch tells of a rank that does not come forward; the thread that looks is in common/stalls.

Progress is a collective entered or left, a batch, a backward pass, a step.
"""

import sys
from typing import Any, Dict, Tuple

from paramedic.adapters.common import stalls
from paramedic.adapters.common.stacks import phase_of
from paramedic.adapters.torch.distributed.collectives import Collectives
from paramedic.adapters.torch.distributed.flight import Flight
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.session import Session

# Of the innermost frame that is one of these: (part of the file's folder or name, phase).
_PLACES = (
    ("/torch/_dynamo/", "compile"),
    ("/torch/_inductor/", "compile"),
    ("/torch/_functorch/", "compile"),
    ("/torch/serialization.py", "checkpoint"),
    ("/torch/distributed/checkpoint/", "checkpoint"),
    ("/torch/utils/data/", "data"),
    ("/torch/autograd/", "backward"),
    ("/torch/optim/", "optimizer"),
    ("/torch/nn/modules/", "forward"),
)


class Watched(stalls.Watched):
    """Collectives, phases, the flight recorder, and modules that are called meanwhile."""

    def __init__(
        self, session: Session, collectives: Collectives, phases: Phases, flight: Flight
    ) -> None:
        self._session = session
        self._collectives = collectives
        self._phases = phases
        self._flight = flight
        self._forward_calls = 0
        self._without_gradients = False
        modules: Any = sys.modules["torch.nn.modules.module"]
        self._hook = GlobalHook(modules._global_forward_pre_hooks, self._forward)

    def progress(self) -> Tuple[int, ...]:
        session = self._session
        return session.step, session.signs, self._collectives.count

    def begin(self) -> None:
        """Modules that are called now say that the rank computes: it evaluates, perhaps."""
        if not self._hook.armed and not self._session.compiled:
            self._forward_calls = 0
            self._without_gradients = False
            self._hook.arm()

    def end(self) -> None:
        self._hook.disarm()

    def tell(self, thread: int, frame: Any) -> Dict[str, Any]:
        # What was asked for before the last time says nothing of now.
        asked = self._collectives.asked.pop(thread, None)
        entry = self._collectives.inside.get(thread) or asked
        waiting = None
        if entry is not None:
            call, number = entry
            waiting = {"group": call.group, "sequence": number, "operation": call.operation}
        validating = self._phases.validating
        return {
            "waiting": waiting,
            "phase": phase_of(frame, _PLACES) or ("validation" if validating else None),
            "evaluating": validating or self._without_gradients,
            "torch_calls_since": self._forward_calls if self._hook.armed else None,
        }

    def flight(self) -> Dict[str, Any]:
        return self._flight.read()

    def _forward(self, module: Any, inputs: Any) -> None:
        self._forward_calls += 1
        self._without_gradients = not (module.training and self._session.torch.is_grad_enabled())
