"""Notices a model that is evaluated in training mode: with dropout on, and batch statistics of the
data that it is tested on.

An evaluation is what the trained model is called for with gradients switched off. `no_grad`,
`inference_mode` and `set_grad_enabled` are watched as context managers; the first call of a module
after one of the job's own lines entered one puts a hook in place, the first call with gradients
takes it away. Watched only while a model with dropout or batch normalisation is trained, and as
long as it was never evaluated in eval mode.

In training mode on purpose are: a model that was switched to it after the last update; one that is
asked for the same input several times (dropout as a sample of models); one of several that are
trained against or beside each other (generators make samples like that); and what is done in
every step (targets that the model makes for itself). Single samples are an agent's moves.
"""

import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.modes import of_another_mode
from paramedic.adapters.torch.names import Models, Root
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.steps import Stepper

EVALUATIONS = 2  # in training mode, apart from each other
STEPS_APART = 2
# Entries from one line after which no module was called: it is not looked at any more.
IDLE_ENTRIES = 8
MAX_SITES = 1000
MAX_MODULES = 20  # named
MAX_INPUTS = 256  # of an evaluation, told apart


class _Evaluation:
    """Calls of the model without gradients between two updates."""

    __slots__ = ("inputs", "is_alone", "is_meant", "step")

    def __init__(self, step: int, is_meant: bool) -> None:
        self.step = step
        self.is_meant = is_meant
        self.is_alone = True
        self.inputs: Set[Tuple[Any, float]] = set()


class Evaluations:
    """Watches one trained model."""

    def __init__(self, session: Session, source: Source, models: Models) -> None:
        self._session = session
        self._source = source
        self._models = models
        self._tap = session.tap("training mode in evaluation")
        self._grad_enabled = session.torch.is_grad_enabled
        self._graph_task = session.torch._C._current_graph_task_id
        table = session.torch.nn.modules.module._global_forward_pre_hooks
        self._hook = GlobalHook(table, self._on_evaluated)
        self._genuine: List[Tuple[Any, Callable[..., Any]]] = []
        # Lines that entered such a context: how often no module was called after it. The code is
        # held, so that its id stays its own.
        self._sites: Dict[Tuple[int, int], Tuple[Any, int]] = {}
        self._site: Optional[Tuple[int, int]] = None
        self._begin()
        session.on_fork.append(self._reset)
        session.on_close.append(self._end)

    def _begin(self) -> None:
        self._fit = self._session.fit
        self._roots = 0
        self._root: Optional[Root] = None
        self._first_step = self._session.step
        self._switched_step = -1
        self._evaluation: Optional[_Evaluation] = None
        self._last_step = -1
        self._bad = 0
        self._first_bad = -1
        self._fields: Dict[str, Any] = {}
        self._over = False

    def switched_on(self, module: Any) -> None:
        """`module.train()` is called by the job."""
        if self._root is not None and self._root.reference() is module:
            self._switched_step = self._session.step

    def before_update(self, stepper: Stepper, optimizer: Any) -> None:
        """Chooses what is watched; two comparisons, where nothing is new."""
        if self._fit == self._session.fit and self._roots == len(self._models.roots):
            return
        if not self._tap.on or self._session.compiled:
            return
        try:
            self._choose()
        except Exception as error:
            self._tap.fail(error)

    def stop(self) -> None:
        """Nothing is watched any more."""
        self._over = True
        self._hook.disarm()
        genuine, self._genuine = self._genuine, []
        for kind, enter in genuine:
            kind.__enter__ = enter

    def _choose(self) -> None:
        if self._fit != self._session.fit:
            self._end()
            self._begin()
        self._roots = len(self._models.roots)
        alive = [root for root in self._models.roots if root.reference() is not None]
        self._root = alive[0] if len(alive) == 1 else None
        model = None if self._root is None else self._root.reference()
        if model is None or not of_another_mode(model) or self._over:
            self.stop()
        elif not self._genuine:
            torch = self._session.torch
            for kind in (torch.no_grad, torch.inference_mode, torch.set_grad_enabled):
                self._watch(kind)

    def _watch(self, kind: Any) -> None:
        genuine, tap, session = kind.__enter__, self._tap, self._session

        @functools.wraps(genuine)
        def __enter__(context: Any) -> Any:
            entered = genuine(context)
            if tap.on and not self._hook.armed and session.thread:
                try:
                    self._entered(sys._getframe(1))
                except Exception as error:
                    tap.fail(error)
            return entered

        self._genuine.append((kind, genuine))
        kind.__enter__ = __enter__

    def _entered(self, frame: Any) -> None:
        if frame.f_code.co_name == "decorate_context" and frame.f_back is not None:
            frame = frame.f_back
        # The library's own use (clipping, initialisation) is none of the job's.
        if self._grad_enabled() or not self._source.is_user(frame.f_code):
            return
        site = (id(frame.f_code), frame.f_lasti)
        known = self._sites.get(site)
        if known is None:
            if len(self._sites) >= MAX_SITES:
                return
            self._sites[site] = (frame.f_code, 0)
        elif known[1] >= IDLE_ENTRIES:
            return
        self._site = site
        if self._session.active() and self._graph_task() == -1:
            self._hook.arm()

    def _on_evaluated(self, module: Any, args: Any) -> None:
        if not self._tap.on:
            return
        try:
            if self._grad_enabled():
                self._hook.disarm()
                if self._site is not None:
                    code, idle = self._sites[self._site]
                    self._sites[self._site] = (code, idle + 1)
                    self._site = None
                return
            self._site = None
            root = self._root
            if root is not None and root.reference() is module and self._session.active():
                self._called(module, args)
        except Exception as error:
            self._hook.disarm()
            self._tap.fail(error)

    def _called(self, model: Any, args: Any) -> None:
        if not model.training or not any(awake for _, awake in of_another_mode(model)):
            # Who evaluates it in eval mode knows of the modes.
            self.stop()
            return
        step = self._session.step
        evaluation = self._evaluation
        if evaluation is None or evaluation.step != step:
            self._judge(is_last=False)
            evaluation = self._evaluation = _Evaluation(step, self._switched_step == step)
        self._note_input(evaluation, next((a for a in args if hasattr(a, "data_ptr")), None))
        if not self._fields:
            self._describe(model)

    def _note_input(self, evaluation: _Evaluation, tensor: Any) -> None:
        if tensor is None or evaluation.is_meant or not tensor.is_cpu or not tensor.numel():
            return
        seen = (tensor.shape, float(tensor.detach().double().sum()))
        evaluation.is_meant = seen in evaluation.inputs
        evaluation.is_alone = evaluation.is_alone and (tensor.dim() < 2 or tensor.shape[0] == 1)
        if len(evaluation.inputs) < MAX_INPUTS:
            evaluation.inputs.add(seen)

    def _describe(self, model: Any) -> None:
        root = self._root
        assert root is not None
        names = [name for name, awake in of_another_mode(model) if awake]
        self._fields = {
            "model": root.name("") or type(model).__name__,
            "modules": [root.name(name) for name in names[:MAX_MODULES]],
            "where": where(place(self._source.frame(sys._getframe(2)))),
        }

    def _judge(self, is_last: bool) -> None:
        """Counts the evaluation that is over, where it is one."""
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is None:
            return
        before = self._last_step if self._last_step >= 0 else self._first_step
        self._last_step = evaluation.step
        is_apart = evaluation.step - before >= STEPS_APART
        if evaluation.is_meant or evaluation.is_alone or not (is_apart or is_last):
            return
        self._bad += 1
        if self._first_bad < 0:
            self._first_bad = evaluation.step
        if self._bad >= EVALUATIONS or is_last:
            self._tell()

    def _tell(self) -> None:
        if not self._over:
            self._fields["first_step"] = self._first_bad
            self._session.event("train_mode_in_evaluation", self._fields)
            self.stop()

    def _end(self) -> None:
        """The job is over: what comes after the last update is an evaluation, however seldom."""
        evaluation = self._evaluation
        if self._tap.on and evaluation is not None:
            self._judge(is_last=evaluation.step == self._session.step)

    def _reset(self) -> None:
        self.stop()
        self._begin()
