"""Looks at what a model is trained on: its inputs and its targets, at a few steps of each fit.

Always several steps in a row, so that what is meant to change from step to step can be seen to.
The steps follow from the number of the step in its fit. A look costs what one slow step costs,
there are some thirty of them in a hundred thousand steps, and none in a run whose plan asks for
nothing. Everything that was held of a step is let go before its update.
"""

import sys
from typing import Any, List, Optional

from paramedic.adapters.common.source import Source
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.loss_graph import kind_of, saved, search
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.session import Session

# The first look of each group, counted from the fit's first step, at which models have no name yet.
GROUPS = (1, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
FIRST_GROUP, GROUP = 5, 3  # looks in a row
MAX_FITS = 20
KINDS = {
    "NllLossBackward": "classes",
    "NllLoss2DBackward": "",
    "NllLossNdBackward": "classes",
    "BinaryCrossEntropyWithLogitsBackward": "binary",
    "BinaryCrossEntropyBackward": "binary",
    "MseLossBackward": "square",
    "L1LossBackward": "distance",
    "SmoothL1LossBackward": "distance",
    "HuberLossBackward": "distance",
}


def is_wanted(step: int) -> bool:
    """Whether the step of a fit is looked at."""
    return any(g <= step < g + (GROUP if at else FIRST_GROUP) for at, g in enumerate(GROUPS))


def next_wanted(step: int) -> int:
    """The first step of a fit from `step` on that is looked at."""
    if is_wanted(step):
        return step
    return next((group for group in GROUPS if group > step), sys.maxsize)


class Look:
    """What one step is trained on; alive no longer than the step."""

    def __init__(self, step: int, first_step: int, frame: Any, line: Any):
        self.step = step
        # Counted from the first step of the fit.
        self.at = step - first_step
        self.frame = frame
        self.line = line
        # Tensors that the only model was given in its only call of the step.
        self.inputs: List[Any] = []
        # The losses in the graph of the only backward pass.
        self.nodes: List[Any] = []

    def rows(self) -> int:
        """How many samples the first input has."""
        first = self.inputs[0]
        return int(first.shape[0]) if first.dim() else 0

    def kind(self) -> str:
        """What kind of loss the only one is; "" where there are several, or another one."""
        return KINDS[kind_of(self.nodes[0])] if len(self.nodes) == 1 else ""

    def target(self) -> Optional[Any]:
        """The targets of the only loss, one for each sample, on the CPU."""
        target = saved(self.nodes[0], "target") if self.kind() else None
        if target is None or not target.is_cpu or target.numel() != self.rows():
            return None
        return target.detach().reshape(-1)


class Judge:
    """Is shown the looks of one fit after another; what it remembers is of one fit."""

    def begin(self) -> None:
        """Forgets what was seen: another fit begins, or this is another process."""

    def look(self, look: Look) -> None:
        """Judges what a step is trained on."""

    def called(self, module: Any, args: Any) -> None:
        """A module is called in a step that is looked at."""


class Looks:
    """Decides which steps are looked at, and gathers what there is to see."""

    def __init__(self, session: Session, source: Source, models: Models) -> None:
        self._session = session
        self._source = source
        self._models = models
        self._tap = session.tap("what a model is trained on")
        self._first_step = 0
        self._anything_due = False
        self._wanted = False
        self._calls = 0
        self._inputs: List[Any] = []
        self._passes = 0
        self.judges: List[Judge] = []
        self._grad_enabled = session.torch.is_grad_enabled
        self._graph_task = session.torch._C._current_graph_task_id
        table = session.torch.nn.modules.module._global_forward_pre_hooks
        self._hook = GlobalHook(table, self._on_input)
        session.on_step_open.append(self._open)
        session.on_fit.append(self._begin)
        session.on_fork.append(self._reset)

    def is_looking(self) -> bool:
        """Whether the open step is looked at."""
        return self._wanted

    def next_wanted(self, step: int) -> int:
        """The last step before the one that is looked at next, from `step` on."""
        if not self._is_on():
            return sys.maxsize
        following = next_wanted(max(1, step - self._first_step))
        if following == sys.maxsize:
            return following
        return max(step, following + self._first_step - 1)

    def look(self, line: Any, tensors: Any, first: bool) -> None:
        """A backward pass of the step begins."""
        if not self._wanted or not self._tap.on:
            return
        self._passes += 1
        inputs, self._inputs = self._inputs, []
        if self._passes != 1 or self._calls != 1 or not inputs:
            return
        try:
            if not isinstance(tensors, self._session.torch.Tensor):
                return
            frame = self._source.frame(sys._getframe(1))
            seen = Look(self._session.step, self._first_step, frame, line)
            seen.inputs, seen.nodes = inputs, search(tensors.grad_fn, KINDS)
            with self._session.torch.no_grad():
                for judge in self.judges:
                    judge.look(seen)
        except Exception as error:
            self._tap.fail(error)

    def before_update(self, stepper: Any, optimizer: Any) -> None:
        """Lets go of what was held."""
        self._inputs = []

    def _is_on(self) -> bool:
        session = self._session
        on = self._tap.on and self._anything_due and not session.compiled
        return on and 0 <= session.fit < MAX_FITS

    def _open(self) -> None:
        session = self._session
        self._anything_due = self._anything_due or bool(session.due)
        self._calls = self._passes = 0
        self._inputs = []
        self._wanted = self._is_on() and is_wanted(session.step - self._first_step)
        if self._wanted:
            self._hook.arm()
        elif self._hook.armed:
            self._hook.disarm()

    def _on_input(self, module: Any, args: Any) -> None:
        if not self._grad_enabled() or self._graph_task() != -1 or not self._session.active():
            return
        try:
            for judge in self.judges:
                judge.called(module, args)
            found = self._models.module(module)
            if found is None or found[1].reference() is not module:
                return
            self._calls += 1
            tensor = self._session.torch.Tensor
            self._inputs = [arg for arg in args if type(arg) is tensor]
        except Exception as error:
            self._hook.disarm()
            self._tap.fail(error)

    def _begin(self) -> None:
        # A fit is known once its first step is nearly over.
        self._first_step = self._session.step
        for judge in self.judges:
            judge.begin()

    def _reset(self) -> None:
        self._hook.disarm()
        self._wanted = False
        self._inputs = []
        self._begin()
