"""Notices an optimizer that never steps: gradients come, and the weights stay as they are.

Backward passes that reach an optimizer's parameters are counted until it first steps, while its
model is in training mode (who computes the gradients of a fixed model puts it in eval mode). Some
values of one parameter are remembered, so that weights which the job changes by hand are no fault.
Looked at when the number of passes is a power of two, and told when a long job goes on like this,
or when it ends.
"""

import weakref
from typing import Any, Dict, List, Optional

from paramedic.adapters.common.source import where
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.steps import Stepper, Steps

# Accumulation over more passes than these is not known; most are over 2 to 64.
PASSES = 1024
PASSES_AT_END = 32
VALUES = 16  # of a parameter
MAX_OPTIMIZERS = 16  # waited for


class _Wait:
    """An optimizer that has not stepped yet."""

    __slots__ = ("optimizer", "owner", "parameter", "passes", "still", "told", "values", "where")

    def __init__(self, stepper: Stepper, spot: Dict[str, Any]) -> None:
        self.optimizer = stepper.label
        # Of the optimizer; it may be gone when the job ends.
        self.owner = stepper.reference
        self.where = spot
        self.parameter: "Optional[weakref.ref[Any]]" = None
        self.values: List[float] = []
        self.passes = 0
        self.still = False
        self.told = False


class Unstepped:
    """Counts backward passes for optimizers that have never stepped."""

    def __init__(self, session: Session, models: Models, origins: Origins, steps: Steps) -> None:
        self._session = session
        self._models = models
        self._origins = origins
        self._steps = steps
        self._tap = session.tap("optimizers that never step")
        self._waits: Dict[int, _Wait] = {}
        # Those of optimizers that are gone.
        self._over: List[_Wait] = []
        # Whether any optimizer has stepped in this process.
        self._any_stepped = False
        session.on_fork.append(self._reset)
        session.on_close.append(self._end)

    def after_backward(self) -> None:
        """Counts a pass. Costs one loop over the optimizers, only while one has not stepped."""
        if not self._tap.on:
            return
        try:
            for stepper in self._steps.unstepped():
                self._count(stepper)
        except Exception as error:
            self._tap.fail(error)

    def after_update(self, stepper: Stepper, optimizer: Any) -> None:
        """It has stepped."""
        self._any_stepped = True
        if self._waits:
            self._waits.pop(id(stepper), None)

    def _count(self, stepper: Stepper) -> None:
        wait = self._waits.get(id(stepper))
        optimizer = stepper.reference()
        if optimizer is None:
            return
        if wait is not None and wait.owner is not stepper.reference:
            self._over = [*self._over, wait][-MAX_OPTIMIZERS:]
            wait = None
        if wait is None:
            if len(self._waits) >= MAX_OPTIMIZERS:
                return
            wait = _Wait(stepper, where(self._origins.of(optimizer)))
            self._waits[id(stepper)] = wait
        parameter = None if wait.parameter is None else wait.parameter()
        if parameter is None:
            parameter = _reached(optimizer)
            if parameter is None:
                return
            wait.parameter, wait.values, wait.passes = weakref.ref(parameter), _values(parameter), 0
        if parameter.grad is None or self._is_fixed():
            return
        wait.passes += 1
        if wait.passes & (wait.passes - 1) == 0:
            wait.still = _values(parameter) == wait.values
            if wait.passes >= PASSES and not self._any_stepped:
                self._tell(wait)

    def _is_fixed(self) -> bool:
        models = [root.reference() for root in self._models.roots]
        return any(model is not None and not model.training for model in models)

    def _tell(self, wait: _Wait) -> None:
        if not wait.still or wait.told:
            return
        wait.told = True
        fields = {"optimizer": wait.optimizer, "passes": wait.passes, "where": wait.where}
        self._session.event("optimizer_never_steps", fields)

    def _end(self) -> None:
        for wait in [*self._over, *self._waits.values()]:
            if wait.passes >= PASSES_AT_END and self._tap.on:
                self._tell(wait)

    def _reset(self) -> None:
        self._waits = {}
        self._over = []
        self._any_stepped = False


def _reached(optimizer: Any) -> Optional[Any]:
    """A parameter of the optimizer that has a gradient, and can be read without waiting."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.is_cpu and parameter.numel():
                return parameter
    return None


def _values(parameter: Any) -> List[float]:
    return [float(value) for value in parameter.detach().reshape(-1)[:VALUES].tolist()]
