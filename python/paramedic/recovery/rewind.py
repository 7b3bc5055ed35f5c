"""Puts back what an iteration changed outside its frames, so that it can be run once more.

Three moments: at the start of an iteration (`mark`) the random state and the tensors that a forward
pass changes are kept; before the first backward pass or optimizer step of the iteration, gradients,
weights and optimizer state; at a crash everything is put back (`put_back`), or the reason is given
why that would not be exact. Nothing of the job's is held alive: what is kept of an object goes with
it, at the latest with the next mark.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from _thread import get_ident
from time import perf_counter_ns
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Set

from paramedic.recovery import hooks
from paramedic.recovery.buffers import Buffers
from paramedic.recovery.crash import Crash, Refused
from paramedic.recovery.found import search
from paramedic.recovery.gradients import Gradients
from paramedic.recovery.memory import frames_inside
from paramedic.recovery.pace import Pace
from paramedic.recovery.random_state import RandomState
from paramedic.recovery.rollback import Rollback, all_finite
from paramedic.recovery.weights import Objects, Weights

# Looking through the frames may take some ms: at most one part in so many of the time.
SEARCH_SHARE = 10
FREE_SEARCHES = 50
_BACKWARD = ("torch/_tensor.py", "torch/autograd/__init__.py", "torch/autograd/graph.py")

_rewinder: List["IterationRewinder"] = []


def rewinder() -> "IterationRewinder":
    """The process's own, made at the first call."""
    if not _rewinder:
        _rewinder.append(IterationRewinder())
    return _rewinder[0]


class _Owned:
    """An optimizer with the gradients of its weights."""

    def __init__(self, pace: Pace, optimizer: Any) -> None:
        self.weights = Weights(pace, optimizer)
        self.gradients = Gradients(pace)
        # `zero_grad` has run since the last backward pass, and left zeros rather than nothing.
        self.zeroed = False
        # First seen after the iteration's first backward pass: its gradients came too late.
        self.late = False


class IterationRewinder:
    """The state of one training thread: the one that marks first, until it ends."""

    def __init__(self) -> None:
        self._thread = 0
        self._off = ""
        self._torch: Any = None
        self._pace = Pace()
        self._loop = -1
        self._loops: Set[int] = set()
        self._random = RandomState()
        self._buffers = Buffers(self._pace)
        self._objects = Objects()
        self._rollback = Rollback(self._pace)
        self._owned: Dict[int, _Owned] = {}
        # Weights that no optimizer owns, and their gradients.
        self._loose: List["weakref.ref[Any]"] = []
        self._loose_gradients = Gradients(self._pace)
        # Whether gradients and weights of this iteration are kept.
        self._kept = False
        self._zeroed = False
        # Autograd's number at the mark: graphs of this iteration have greater ones.
        self.sequence = -1
        self._next_sequence: Callable[[], int] = lambda: -1
        self._next_search_ns = 0
        self._searches = 0
        self._models: List["weakref.ref[Any]"] = []
        self._stale = True

    def mark(self, loop: int = 0) -> None:
        """An iteration of `loop` starts: 2 µs, more with buffers to copy."""
        try:
            if self._thread != get_ident() and not self._adopt():
                return
            self._pace.marks += 1
            self._loop = loop
            self._kept = False
            if self._stale or loop not in self._loops:
                self._look(sys._getframe(1), loop)
            self._random.keep()
            self._buffers.keep()
            self.sequence = self._next_sequence()
        except Exception as error:
            self._fail(error)

    def enter(self, loop: int) -> None:
        """`loop` is about to start its first iteration, as a rule in a new frame."""
        self._loops.discard(loop)

    def put_back(self, crash: Crash, loop: int = 0) -> None:
        """Undoes what happened since the mark of `loop`; raises Refused and changes nothing where
        that cannot be exact."""
        self._check_mark(loop)
        self._buffers.check()
        self._check_weights()
        try:
            self._put_back_weights()
            self._buffers.put_back()
            self._random.put_back()
        except Exception as error:
            raise Refused(
                f"putting back failed half-way: {type(error).__name__}: {error}"
            ) from error

    def _check_mark(self, loop: int) -> None:
        if self._off:
            raise Refused(f"what an iteration changes is not kept: {self._off}")
        if not self._pace.marks or loop != self._loop:
            raise Refused("since the start of the iteration another loop has trained")
        if self._thread != get_ident():
            raise Refused("another thread trains: its iterations are kept, not this one's")
        if self._stale and self._torch is not None:
            raise Refused("an optimizer was made so recently that its model is not known yet")

    def roll_back(self, crash: Crash, loop: int, rate_factor: float = 1.0) -> str:
        """Gives weights and optimizer state finite values that they had before: at the start of the
        iteration if those are known and finite, else some iterations ago. Answers which.

        Args:
            crash: of an iteration of `loop`.
            loop: see `put_back`.
            rate_factor: learning rates are multiplied by this.
        """
        weights = [w for owned in self._owned.values() for w in owned.weights.parameters()]
        done, reason = "weights as at the start of the iteration", ""
        try:
            self.put_back(crash, loop)
            if not all_finite(weights):
                reason = "the weights were not finite any more when the iteration began"
        except Refused as refused:
            reason = str(refused)
        if reason:
            ago = self._rollback.put_back()
            if ago is None:
                raise Refused(f"{reason}; there is no older copy of them")
            for weight in weights:
                weight.grad = None
            done = f"weights as {ago} iterations ago"
        if rate_factor != 1.0:
            for owned in self._owned.values():
                optimizer = owned.weights.reference()
                for group in () if optimizer is None else optimizer.param_groups:
                    group["lr"] *= rate_factor
        return done

    def undo_part(self, crash: Crash, loop: int, outer: FrameType) -> None:
        """Undoes what a forward pass, a backward pass or a step that `outer` has begun did before
        it crashed, where that is known exactly; the rest of the iteration stays."""
        frames = frames_inside(crash, outer)
        with contextlib.suppress(Refused):
            if any(map(self._repeats_badly, frames)):
                self._check_mark(loop)
                self._check_weights()
                self._put_back_weights()
            elif not self._kept and any(map(_is_forward, frames)):
                # A batch that no weight has learnt from is none for running statistics either.
                # Random numbers stay used up: a batch that they made would come again.
                self._check_mark(loop)
                self._buffers.check()
                self._buffers.put_back()

    def models(self) -> List[Any]:
        """The models that the frames held when they were looked through last."""
        models = [reference() for reference in self._models]
        return [model for model in models if model is not None]

    def needs_rewind(self, crash: Crash, outer: Optional[FrameType] = None) -> bool:
        """Whether the statement at which `outer`, by default the crashed frame, stands is in the
        middle of a backward pass or an optimizer's step."""
        try:
            return any(map(self._repeats_badly, frames_inside(crash, outer)))
        except Exception:
            return False

    def _check_weights(self) -> None:
        if not self._kept:
            return
        for owned in self._owned.values():
            owned.weights.check()
            if owned.late and self._pace.marks > 1:
                raise Refused(
                    f"{owned.weights.name} was first seen in this iteration, after its gradients"
                )
            owned.gradients.check(owned.weights.parameters())
        self._loose_gradients.check(self._loose_weights())

    def _put_back_weights(self) -> None:
        if not self._kept:
            return
        for owned in self._owned.values():
            owned.weights.put_back()
            owned.gradients.put_back(owned.weights.parameters())
        self._loose_gradients.put_back(self._loose_weights())
        self._objects.put_back()

    def _repeats_badly(self, frame: FrameType) -> bool:
        code = frame.f_code
        name = code.co_filename.replace("\\", "/")
        if code.co_name in ("backward", "grad", "_engine_run_backward"):
            return name.endswith(_BACKWARD)
        if code.co_name != "step" or self._torch is None:
            return False
        return isinstance(frame.f_locals.get("self"), self._torch.optim.Optimizer)

    def _adopt(self) -> bool:
        """Whether the calling thread is now the one that is kept."""
        if self._off or (self._thread and self._thread in sys._current_frames()):
            return False
        self._thread = get_ident()
        return True

    def _look(self, frame: FrameType, loop: int) -> None:
        """Looks through the frames for what takes part in the training."""
        start = perf_counter_ns()
        self._searches += 1
        if self._searches > FREE_SEARCHES and start < self._next_search_ns:
            return
        self._stale = False
        self._loops.add(loop)
        if self._torch is None:
            torch: Any = sys.modules.get("torch")
            if not hasattr(torch, "optim"):
                self._stale = True
                return
            self._torch = torch
            self._next_sequence = torch.autograd._get_sequence_nr
            hooks.install(torch, self)
        found = search(frame)
        self._models = [weakref.ref(model) for model in found.models]
        for optimizer in found.optimizers + _watched_optimizers():
            self._add(optimizer)
        owned = {id(p) for o in self._owned.values() for p in o.weights.parameters()}
        self._buffers.watch(found.models, owned)
        loose = {
            id(weight): weight
            for model in found.models
            for weight in model.parameters()
            if weight.requires_grad and id(weight) not in owned
        }
        self._loose = [weakref.ref(weight) for weight in loose.values()]
        self._objects.watch(found.schedulers + found.scalers)
        self._random.watch(found.generators)
        now = perf_counter_ns()
        self._next_search_ns = now + SEARCH_SHARE * (now - start)

    def new_optimizer(self, optimizer: Any) -> None:
        """An optimizer was constructed: others like its model may be new as well."""
        try:
            if not self._off:
                self._add(optimizer)
                self._stale = True
        except Exception as error:
            self._fail(error)

    def _add(self, optimizer: Any) -> _Owned:
        known = self._owned.get(id(optimizer))
        if known is None or known.weights.reference() is not optimizer:
            alive = self._owned.items()
            self._owned = {k: o for k, o in alive if o.weights.reference() is not None}
            known = self._owned[id(optimizer)] = _Owned(self._pace, optimizer)
        return known

    def _optimizers(self) -> List[Any]:
        references = [owned.weights.reference() for owned in self._owned.values()]
        return [optimizer for optimizer in references if optimizer is not None]

    def _loose_weights(self) -> List[Any]:
        weights = [reference() for reference in self._loose]
        return [weight for weight in weights if weight is not None]

    def before_backward(self) -> None:
        """A backward pass or a step is about to run; only the first of an iteration counts."""
        if self._kept or self._thread != get_ident() or self._off:
            if self._zeroed:
                self._forget_zeros()
            return
        try:
            self._kept = True
            for owned in self._owned.values():
                parameters = owned.weights.parameters()
                owned.gradients.keep(parameters, owned.zeroed)
                owned.weights.keep(parameters)
                owned.late = False
            self._forget_zeros()
            if self._loose:
                self._loose_gradients.keep(self._loose_weights(), False)
            self._objects.keep()
            if self._pace.marks >= self._rollback.next_mark:
                self._rollback.keep(self._optimizers(), self._buffers.changing())
        except Exception as error:
            self._fail(error)

    def _forget_zeros(self) -> None:
        self._zeroed = False
        for owned in self._owned.values():
            owned.zeroed = False

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """The global hook before each optimizer's step."""
        if self._thread != get_ident() or self._off:
            return
        self.before_backward()
        try:
            owned = self._owned.get(id(optimizer))
            if owned is None or owned.weights.reference() is not optimizer:
                owned = self._add(optimizer)
                self._stale = True
                owned.late = True
                owned.weights.keep(owned.weights.parameters())
            owned.weights.stepped = True
        except Exception as error:
            self._fail(error)

    def zeroed(self, thing: Any) -> None:
        """`zero_grad(set_to_none=False)` of an optimizer or a module has run."""
        try:
            known = self._owned.get(id(thing))
            if known is not None and known.weights.reference() is thing:
                known.zeroed = self._zeroed = True
            elif hasattr(thing, "parameters"):
                reached = {id(parameter) for parameter in thing.parameters()}
                for owned in self._owned.values():
                    if all(id(p) in reached for p in owned.weights.parameters()):
                        owned.zeroed = self._zeroed = True
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Nothing is kept from here on; a rewind is refused with this reason."""
        self._off = f"{type(error).__name__}: {error}"[:300]
        self._thread = -1
        self._forget_all()
        if os.environ.get("PARAMEDIC_DEBUG"):
            sys.stderr.write(f"paramedic: rewinding is off: {self._off}\n")

    def _forget_all(self) -> None:
        self._owned, self._loose = {}, []
        self._buffers = Buffers(self._pace)
        self._objects = Objects()
        self._rollback = Rollback(self._pace)


def _is_forward(frame: FrameType) -> bool:
    name = frame.f_code.co_filename.replace("\\", "/")
    return frame.f_code.co_name == "_call_impl" and name.endswith("torch/nn/modules/module.py")


def _watched_optimizers() -> List[Any]:
    """Those that the adapter knows; some hide deeper than a search through frames goes."""
    adapter: Any = sys.modules.get("paramedic.adapters.torch")
    attached = getattr(adapter, "_attached", None)
    return list(attached[0].steps.optimizers()) if attached else []
