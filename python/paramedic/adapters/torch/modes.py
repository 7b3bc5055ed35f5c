"""Notices a model that trains in eval mode: no dropout, and batch statistics that stand still.

Looked at on the steps for which gradients are due. A part that is kept in eval mode inside a model
that trains, and a model that goes on from loaded weights and was never in training mode, are so on
purpose; a model without dropout or batch normalisation does the same in both modes.
"""

import sys
import weakref
from typing import Any, Dict, List, Optional, Tuple

from paramedic import _probe
from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.torch.names import Models, Root
from paramedic.adapters.torch.origins import NOWHERE, Origins, Place
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.steps import Stepper

LOOKS_IN_A_ROW = 2
MAX_MODELS = 100  # remembered, and told
MAX_MODULES = 20  # named


class _State:
    """What is known of one model."""

    __slots__ = ("first_step", "looks", "model", "place", "told", "trained")

    def __init__(self, model: Any) -> None:
        self.model = weakref.ref(model)
        self.place: Place = NOWHERE
        self.trained = False
        self.looks = 0
        self.first_step = 0
        self.told = False


class Modes:
    """Follows which mode models are in when their optimizer steps."""

    def __init__(self, session: Session, source: Source, models: Models, origins: Origins) -> None:
        self._session = session
        self._source = source
        self._models = models
        self._origins = origins
        self._tap = session.tap("eval mode in training")
        self._states: Dict[int, _State] = {}
        session.on_fork.append(self._states.clear)

    def switched_off(self, module: Any) -> None:
        """`module.eval()` is called; from its wrapper, two frames below the caller."""
        if not self._tap.on:
            return
        try:
            state = self._state(module)
            if state is not None:
                state.place = place(self._source.frame(sys._getframe(2)))
        except Exception as error:
            self._tap.fail(error)

    def before_update(self, stepper: Stepper, optimizer: Any) -> None:
        """Looks at the models that the optimizer is about to change."""
        if not self._session.due & _probe.DUE_GRADIENT or not self._tap.on:
            return
        try:
            for root in self._models.roots:
                model = root.reference()
                if model is not None and _owns(root, stepper):
                    self._look(root, model)
        except Exception as error:
            self._tap.fail(error)

    def _look(self, root: Root, model: Any) -> None:
        state = self._state(model)
        if state is None or state.told:
            return
        if model.training:
            state.trained, state.looks = True, 0
            return
        if not state.trained and self._origins.is_loaded(model):
            return
        asleep = _asleep(model)
        if not asleep:
            state.looks = 0
            return
        if not state.looks:
            state.first_step = self._session.step
        state.looks += 1
        if state.looks == LOOKS_IN_A_ROW:
            state.told = True
            fields: Dict[str, Any] = {
                "model": root.name("") or type(model).__name__,
                "modules": [root.name(name) for name in asleep[:MAX_MODULES]],
                "first_step": state.first_step,
                "where": where(state.place),
            }
            self._session.event("eval_mode_in_training", fields)

    def _state(self, model: Any) -> Optional[_State]:
        state = self._states.get(id(model))
        if state is None or state.model() is not model:
            if len(self._states) >= MAX_MODELS:
                for key in [k for k, s in self._states.items() if s.model() is None]:
                    del self._states[key]
                if len(self._states) >= MAX_MODELS:
                    return None
            state = self._states[id(model)] = _State(model)
        return state


def _owns(root: Root, stepper: Stepper) -> bool:
    if not root.prefix:
        return True
    return any(name.startswith(root.prefix + ".") for name in stepper.names)


def of_another_mode(model: Any) -> List[Tuple[str, bool]]:
    """What is another in training mode, and whether it is in that mode: (name, awake)."""
    found: List[Tuple[str, bool]] = []
    for name, module in model.named_modules():
        kind = type(module).__name__
        drops = "Dropout" in kind and getattr(module, "p", 0) > 0
        counts = "BatchNorm" in kind and getattr(module, "running_mean", None) is not None
        if drops or counts:
            found.append((name, bool(module.training)))
    return found


def _asleep(model: Any) -> List[str]:
    """Names of what is another in training mode; none when some of it is left in that mode."""
    found = of_another_mode(model)
    return [] if any(awake for _, awake in found) else [name for name, _ in found]
