"""Notices an optimizer that holds parameters which the model no longer has.

A layer that is replaced after the optimizer was made has new parameters: these get gradients and
are never changed, while the old ones are kept by the optimizer and get none. Looked at on steps for
which something is due, and once there are some on each that goes the usual way. Parameters that are
left out of the optimizer on purpose are no fault: then it holds none that are gone.
"""

from typing import Any, Dict, List, Set, Tuple

from paramedic.adapters.common.source import where
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.steps import Stepper, Steps

LOOKS_IN_A_ROW = 2
MAX_PARAMETERS = 20  # named


class Orphans:
    """Compares what optimizers hold with what models have."""

    def __init__(self, session: Session, models: Models, origins: Origins, steps: Steps) -> None:
        self._session = session
        self._models = models
        self._origins = origins
        self._steps = steps
        self._tap = session.tap("parameters that optimizers miss")
        # Looks in a row, and the step of the first, by the stepper.
        self._looks: Dict[int, Tuple[int, int]] = {}
        session.on_fork.append(self._looks.clear)

    def before_update(self, stepper: Stepper, optimizer: Any) -> None:
        """Looks at what the optimizer holds; about 0.2 µs a parameter."""
        if not (self._session.due or self._is_half_seen()) or not self._tap.on:
            return
        try:
            self._look(stepper, optimizer)
        except Exception as error:
            self._tap.fail(error)

    def _is_half_seen(self) -> bool:
        return any(looks < LOOKS_IN_A_ROW for looks, _ in self._looks.values())

    def _look(self, stepper: Stepper, optimizer: Any) -> None:
        owned = self._of_models()
        gone = [p for p in _held(optimizer) if id(p) not in owned]
        # What has a gradient is used, whoever owns it.
        if not gone or any(p.grad is not None for p in gone):
            self._looks.pop(id(stepper), None)
            return
        held = {id(p) for other in self._steps.optimizers() for p in _held(other)}
        shapes = {len(p.shape) for p in gone}
        missed = [
            p
            for key, p in owned.items()
            if key not in held and p.grad is not None and len(p.shape) in shapes
        ]
        if not missed:
            self._looks.pop(id(stepper), None)
            return
        looks, first_step = self._looks.get(id(stepper), (0, self._session.step))
        self._looks[id(stepper)] = looks + 1, first_step
        if looks + 1 == LOOKS_IN_A_ROW:
            self._tell(stepper, optimizer, missed, first_step)

    def _of_models(self) -> Dict[int, Any]:
        seen: Set[int] = set()
        owned: Dict[int, Any] = {}
        for root in self._models.roots:
            model = root.reference()
            if model is not None and id(model) not in seen:
                seen.add(id(model))
                owned.update((id(p), p) for p in model.parameters())
        return owned

    def _tell(self, stepper: Stepper, optimizer: Any, missed: List[Any], first_step: int) -> None:
        self._models.rename_new()
        fields: Dict[str, Any] = {
            "optimizer": stepper.label,
            "parameters": [self._models.parameter(p) for p in missed[:MAX_PARAMETERS]],
            "first_step": first_step,
            "where": where(self._origins.of(optimizer)),
        }
        self._session.event("optimizer_misses_parameters", fields)


def _held(optimizer: Any) -> List[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
