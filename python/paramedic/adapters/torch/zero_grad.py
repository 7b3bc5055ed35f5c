"""Notices gradients that are never set back, so that each step adds to all before it.

One parameter of an optimizer is looked at, the smallest. After `step()` its gradient is remembered
by address and version; at the start of each later backward pass it is either gone, another one, or
zero (then somebody set it back), or as it was. When the next `step()` comes, backward passes have
added to it, and it was as it was at every one of them, that step used old gradients. Passes of
other losses that come before the `zero_grad()` (the generator's, in a GAN) do no harm: one sight of
a clean gradient is enough. Three steps in a row are told.
"""

import weakref
from typing import Any, Dict, List, Optional, Tuple

from paramedic import _probe
from paramedic.adapters.common.source import where
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.steps import FORGET_AFTER_STEPS, Stepper

FIRST_STEPS = 5  # of an optimizer are all looked at, later ones when gradients are sampled
STEPS_IN_A_ROW = 3


class _Look:
    """The remembered gradient of one optimizer."""

    __slots__ = ("added", "address", "cleared", "parameter", "step", "version")

    def __init__(self, parameter: Any, gradient: Any, step: int) -> None:
        self.step = step
        # Neither parameter nor gradient is kept alive.
        self.parameter = weakref.ref(parameter)
        self.address = gradient.data_ptr()
        self.version = gradient._version
        # Seen clean at the start of a backward pass; grown by a backward pass.
        self.cleared = False
        self.added = False

    def gradient(self) -> Optional[Any]:
        """The same gradient still; None when it is gone or another one."""
        parameter = self.parameter()
        gradient = None if parameter is None else parameter.grad
        return gradient if gradient is not None and gradient.data_ptr() == self.address else None


class ZeroGrad:
    """Compares gradients before and after they may have been set back."""

    def __init__(self, session: Session, models: Models) -> None:
        self._session = session
        self._models = models
        self._tap = session.tap("gradients not zeroed")
        self._looks: Dict[int, _Look] = {}
        self._bad: Dict[int, List[int]] = {}
        session.on_fork.append(self._looks.clear)
        session.on_fork.append(self._bad.clear)

    def is_looking(self) -> bool:
        """Whether a gradient is remembered."""
        return bool(self._looks)

    def after_update(self, stepper: Stepper, optimizer: Any) -> None:
        """Remembers a gradient as `step()` left it."""
        sampled = self._session.due & _probe.DUE_GRADIENT or stepper.steps <= FIRST_STEPS
        if not sampled or not self._tap.on:
            return
        try:
            parameter = _smallest(optimizer)
            if parameter is not None:
                self._looks[id(stepper)] = _Look(parameter, parameter.grad, self._session.step)
        except Exception as error:
            self._tap.fail(error)

    def before_backward(self, line: str) -> None:
        """Looks whether the remembered gradients are still there. Costs nothing without any."""
        if not self._looks or not self._tap.on:
            return
        try:
            self._forget()
            for look in self._looks.values():
                gradient = look.gradient()
                # A changed version is the job's own work on it: it does not forget its gradients.
                # What is written through `.data` changes none.
                if gradient is None or gradient._version != look.version or _is_zero(gradient):
                    look.cleared = True
        except Exception as error:
            self._tap.fail(error)

    def _forget(self) -> None:
        """An optimizer may never step again, and while one is looked at no step is cheap."""
        oldest = self._session.step - FORGET_AFTER_STEPS
        for key in [key for key, look in self._looks.items() if look.step < oldest]:
            del self._looks[key]

    def after_backward(self) -> None:
        """Notes which gradients the pass has added to."""
        if not self._looks or not self._tap.on:
            return
        try:
            for look in self._looks.values():
                gradient = look.gradient()
                if gradient is not None and gradient._version != look.version:
                    look.version = gradient._version
                    look.added = True
        except Exception as error:
            self._tap.fail(error)

    def before_update(self, stepper: Stepper, optimizer: Any) -> None:
        """Judges the step that is about to use the gradients."""
        look = self._looks.pop(id(stepper), None)
        if look is None or not self._tap.on:
            return
        try:
            if look.cleared or not look.added or look.gradient() is None:
                self._bad.pop(id(stepper), None)
                return
            steps = self._bad.setdefault(id(stepper), [])
            steps.append(self._session.step)
            if len(steps) == STEPS_IN_A_ROW:
                self._tell(stepper, look, steps)
        except Exception as error:
            self._tap.fail(error)

    def _tell(self, stepper: Stepper, look: _Look, steps: List[int]) -> None:
        fields = {
            "optimizer": stepper.label,
            "parameter": self._models.parameter(look.parameter()),
            "where": where(stepper.place),
            "steps": steps,
        }
        self._session.event("gradient_not_zeroed", fields)


def _is_zero(gradient: Any) -> bool:
    return not gradient.any().item()


def _smallest(optimizer: Any) -> Optional[Any]:
    best: Optional[Tuple[int, Any]] = None
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None or not gradient.is_cpu or gradient.is_sparse:
                continue
            size = gradient.numel()
            if size and (best is None or size < best[0]):
                best = (size, parameter)
    return None if best is None else best[1]
