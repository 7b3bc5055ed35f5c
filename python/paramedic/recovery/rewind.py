"""Puts back what an iteration changed outside its frames, so that it can be run once more.

Three moments: at the start of an iteration (`mark`) the random state and the tensors that a forward
pass changes are kept; before the first backward pass or optimizer step of the iteration, gradients,
weights and optimizer state; at a crash everything is put back (`put_back`), or the reason is given
why that would not be exact. The first two are the gate's (gate.py), which calls in here only where
there is more to do than to keep the random state. Nothing of the job's is held alive: what is kept
of an object goes with it, at the latest with the next mark.
"""

from __future__ import annotations

import contextlib
import ctypes
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
from paramedic.recovery.gate import MAX_OWNERS, Gate
from paramedic.recovery.gradients import Gradients
from paramedic.recovery.memory import frames_inside
from paramedic.recovery.pace import Pace
from paramedic.recovery.random_state import RandomState
from paramedic.recovery.rollback import Rollback, all_finite
from paramedic.recovery.weights import Objects, Weights

# Looking through the frames may take some ms: at most one part in so many of the time.
SEARCH_SHARE = 100
FREE_SEARCHES = 50
# How many iterations may go by without a closer look: as many as went before, within these.
LEAST_REST, MOST_REST = 16, 1024
_NEVER = 1 << 62
_BACKWARD = ("torch/_tensor.py", "torch/autograd/__init__.py", "torch/autograd/graph.py")

_rewinder: List["IterationRewinder"] = []


def rewinder() -> "IterationRewinder":
    """The process's own, made at the first call; raises Refused where there can be none."""
    if not _rewinder:
        try:
            _rewinder.append(IterationRewinder())
        except OSError as error:
            raise Refused(f"what an iteration changes is not kept: {error}") from error
    return _rewinder[0]


def marks() -> int:
    """How many iterations have been marked in the calling thread; 0 where another one trains."""
    return _rewinder[0].marks() if _rewinder else 0


class _Owned:
    """An optimizer with the gradients of its weights."""

    def __init__(self, pace: Pace, optimizer: Any, on_death: Callable[[], None]) -> None:
        self.weights = Weights(pace, optimizer, on_death)
        self.gradients = Gradients(pace)
        # `zero_grad` has run since the last backward pass, and left zeros rather than nothing.
        self.zeroed = False
        # First seen after the iteration's first backward pass: its gradients came too late.
        self.late = False
        # Those it had taken when its gradients were looked at last.
        self.steps = -1


class IterationRewinder:
    """The state of one training thread: the one that marks first, until it ends."""

    def __init__(self) -> None:
        self._off = ""
        self._torch: Any = None
        self._pace = Pace()
        self._loop = -1
        self._loops: Set[int] = set()
        self._buffers = Buffers(self._pace)
        self._objects = Objects()
        self._rollback = Rollback(self._pace)
        self._owned: Dict[int, _Owned] = {}
        # Weights that no optimizer owns, and their gradients.
        self._loose: List["weakref.ref[Any]"] = []
        self._loose_gradients = Gradients(self._pace)
        # The mark after which gradients and weights were kept last, and the next one to do it.
        self._kept_at = -1
        self._keep_at = 0
        # Autograd's number at the mark, where the gate cannot ask for it.
        self._sequence = -1
        self._next_sequence: Callable[[], int] = lambda: -1
        self._next_search_ns = 0
        self._searches = 0
        self._models: List["weakref.ref[Any]"] = []
        self._stale = True
        self._gate = gate = Gate()
        self._state = gate.state
        self._random = RandomState(gate)
        gate.hold("on_mark", self._on_mark)
        gate.hold("on_change", self._on_change)
        gate.hold("on_step", self._on_step)
        gate.hold("on_clear", self._on_clear)
        # An iteration of the loop with this id starts: a microsecond, more with buffers to copy.
        self.mark: Callable[[int], None] = gate.mark

    @property
    def sequence(self) -> int:
        """Autograd's number at the mark: graphs of this iteration have greater ones."""
        return int(self._state.sequence_at_mark) if self._state.sequence else self._sequence

    def marks(self) -> int:
        """Those of the calling thread; see `marks`."""
        return int(self._state.marks) if self._state.thread == get_ident() else 0

    def torch_random_state(self) -> Any:
        """That of torch's generator of the CPU at the last mark; None where it is not known."""
        return self._random.torch_state()

    def _on_mark(self, loop: int) -> None:
        """A mark that is not like the one before it."""
        try:
            state = self._state
            if state.thread != get_ident() and not self._adopt():
                return
            marks = self._pace.marks = state.marks + 1
            self._loop = loop
            if self._stale or loop not in self._loops:
                self._look(sys._getframe(1), loop)
            if marks >= self._buffers.sort_at:
                self._buffers.sort()
            self._random.look()
            state.module_count = len(sys.modules)
            self._expect(loop, marks)
        except Exception as error:
            self._fail(error)

    def _expect(self, loop: int, marks: int) -> None:
        """Tells the gate which marks it may answer itself, and which backward passes."""
        state, gate = self._state, self._gate
        if marks >= self._keep_at:
            state.may_skip = 0
        if self._stale or loop not in self._loops:
            gate.let_go("loop")
        else:
            gate.hold("loop", loop)
        keep_at = _NEVER if marks >= self._keep_at else self._keep_at
        state.look_at = min(keep_at, self._buffers.sort_at)
        if self._buffers.changing() or self._random.keeps or not state.sequence:
            gate.hold("on_keep", self._on_keep)
        else:
            gate.let_go("on_keep")

    def _on_keep(self) -> None:
        """What the gate cannot keep itself, at each mark."""
        try:
            self._pace.marks = self._state.marks
            for keep in self._random.keeps:
                keep()
            self._buffers.keep()
            self._sequence = self._next_sequence()
        except Exception as error:
            self._fail(error)

    def enter(self, loop: int) -> None:
        """`loop` is about to start its first iteration, as a rule in a new frame."""
        self._loops.discard(loop)
        self._gate.let_go("loop")

    def put_back(self, crash: Crash, loop: int = 0, again: bool = True) -> None:
        """Undoes what happened since the mark of `loop`; raises Refused and changes nothing where
        that cannot be exact.

        Args:
            crash: of an iteration of `loop`.
            loop: the number of its marks.
            again: the iteration is run again. Where the next one follows, random numbers stay used
                up: a batch that they made would come again.
        """
        self._check_mark(loop)
        if again:
            self._random.check()
        self._buffers.check()
        self._check_weights()
        try:
            self._put_back_weights()
            self._buffers.put_back()
            if again:
                self._random.put_back()
        except Exception as error:
            raise Refused(
                f"putting back failed half-way: {type(error).__name__}: {error}"
            ) from error

    def _check_mark(self, loop: int) -> None:
        if self._off:
            raise Refused(f"what an iteration changes is not kept: {self._off}")
        self._pace.marks = self._state.marks
        if not self._pace.marks or loop != self._loop:
            raise Refused("since the start of the iteration another loop has trained")
        if self._state.thread != get_ident():
            raise Refused("another thread trains: its iterations are kept, not this one's")
        if self._stale and self._torch is not None:
            raise Refused("an optimizer was made so recently that its model is not known yet")

    def roll_back(
        self, crash: Crash, loop: int, rate_factor: float = 1.0, again: bool = False
    ) -> str:
        """Gives weights and optimizer state finite values that they had before: at the start of the
        iteration if those are known and finite, else some iterations ago. Answers which.

        Args:
            crash: of an iteration of `loop`.
            loop: see `put_back`.
            rate_factor: learning rates are multiplied by this.
            again: see `put_back`.
        """
        self.check_exchanged()
        weights = [w for owned in self._owned.values() for w in owned.weights.parameters()]
        done, reason = "weights as at the start of the iteration", ""
        try:
            self.put_back(crash, loop, again)
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
            elif not self._state.changed and any(map(_is_forward, frames)):
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

    def check_ranks(self) -> None:
        """Raises Refused where other ranks wait for the rest of this iteration's gradients.

        DistributedDataParallel counts what it has sent to them. Neither a second backward pass nor
        the next iteration fits to what they expect, and to reset it makes it order its buckets
        anew, with which they do not join in.
        """
        for model in self.models():
            is_finalized = getattr(
                getattr(model, "reducer", None), "_check_reducer_finalized", None
            )
            try:
                if is_finalized is not None:
                    is_finalized()
            except RuntimeError as error:
                raise Refused(
                    "DistributedDataParallel has begun to reduce the gradients of this iteration: "
                    "the other ranks wait for the rest of it, and a second try would not fit; all "
                    "ranks have to start again"
                ) from error

    def check_exchanged(self) -> None:
        """Raises Refused where other ranks have taken part in what would be undone.

        They have the gradients of this iteration, or have made its step, and go on. Run once more
        by one rank it would meet their next iteration, and the weights would part for good.
        """
        if not self._state.changed or not _has_other_ranks():
            return
        self._settle()
        stepped = any(owned.weights.stepped for owned in self._owned.values())
        if stepped or any(map(_shares_gradients, self.models())):
            raise Refused(
                "the other ranks have had the gradients of this iteration and go on: run once more "
                "by this rank alone, its weights would part from theirs"
            )

    def _check_weights(self) -> None:
        if not self._state.changed:
            return
        self.check_ranks()
        self.check_exchanged()
        self._settle()
        for owned in self._owned.values():
            owned.weights.check()
            if owned.late and self._pace.marks > 1:
                raise Refused(
                    f"{owned.weights.name} was first seen in this iteration, after its gradients"
                )
            owned.gradients.check(owned.weights.parameters())
        self._loose_gradients.check(self._loose_weights())

    def _settle(self) -> None:
        """What the gate has seen of this iteration, each optimizer is told."""
        self._pace.marks = self._state.marks
        for key, owned in self._owned.items():
            owner = self._gate.owner(key)
            if owner is None:
                continue
            if self._state.skipped:
                if owner.had_none:
                    owned.gradients.keep_none()
                else:
                    owned.gradients.follow()
                owned.weights.follow(owner.steps_at_mark)
                owned.late = False
            if owner.steps > owner.steps_at_mark:
                owned.weights.stepped = True
        self._state.skipped = 0

    def _put_back_weights(self) -> None:
        if not self._state.changed:
            return
        for key, owned in self._owned.items():
            owned.weights.put_back()
            owned.gradients.put_back(owned.weights.parameters())
            owner = self._gate.owner(key)
            if owner is not None:
                owner.steps = owner.steps_at_mark
        self._loose_gradients.put_back(self._loose_weights())
        self._objects.put_back()
        self._look_soon()

    def _look_soon(self) -> None:
        self._keep_at = self._state.look_at = self._state.may_skip = 0

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
        thread = self._state.thread
        if self._off or (thread and thread in sys._current_frames()):
            return False
        self._state.thread = get_ident()
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
            self._state.sequence = _sequence_function(torch)
            hooks.install(torch, self, self._gate)
        found = search(frame)
        self._models = [weakref.ref(model) for model in found.models]
        for optimizer in found.optimizers + _watched_optimizers():
            self._add(optimizer)
        owned = {id(p) for o in self._owned.values() for p in o.weights.parameters()}
        self._buffers.watch(found.models, owned)
        self._buffers.on_death = self._gate.forget_clearers
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
        """An optimizer was given weights: others like its model may be new as well."""
        try:
            if not self._off:
                self._add(optimizer)
                self._stale = True
                self._gate.let_go("loop")
                self._gate.forget_clearers()
                self._look_soon()
        except Exception as error:
            self._fail(error)

    def _add(self, optimizer: Any) -> _Owned:
        known = self._owned.get(id(optimizer))
        if known is None or known.weights.reference() is not optimizer:
            alive = self._owned.items()
            self._owned = {k: o for k, o in alive if o.weights.reference() is not None}
            known = self._owned[id(optimizer)] = _Owned(self._pace, optimizer, self._died)
            self._gate.own(list(self._owned))
            self._look_soon()
        return known

    def _died(self) -> None:
        """An optimizer is no more, and another may come to be where it was."""
        alive = self._owned.items()
        self._gate.own([k for k, owned in alive if owned.weights.reference() is not None])

    def _optimizers(self) -> List[Any]:
        references = [owned.weights.reference() for owned in self._owned.values()]
        return [optimizer for optimizer in references if optimizer is not None]

    def _loose_weights(self) -> List[Any]:
        weights = [reference() for reference in self._loose]
        return [weight for weight in weights if weight is not None]

    def _on_change(self) -> None:
        """A backward pass or a step is about to run; only the first of an iteration counts."""
        try:
            marks = self._pace.marks = self._state.marks
            if self._kept_at != marks:
                self._kept_at = marks
                self._keep(marks)
            self._state.zeroed = 0
            for owned in self._owned.values():
                owned.zeroed = False
        except Exception as error:
            self._fail(error)

    def _keep(self, marks: int) -> None:
        is_time = marks >= self._keep_at
        regular = len(self._owned) <= MAX_OWNERS
        for key, owned in self._owned.items():
            owner = self._gate.owner(key)
            steps = -1 if owner is None else owner.steps
            owned.late = False
            weights = owned.weights
            if weights.is_regular and not is_time and steps >= 0:
                weights.follow(steps)
            else:
                weights.keep(weights.parameters(), steps)
                regular = regular and weights.is_regular
            if owner is not None and owner.cleared:
                owned.gradients.keep_none()
                continue
            same = owned.gradients.keep(weights.parameters(), owned.zeroed)
            if owner is not None:
                owner.idle = int(same and steps == owned.steps)
            owned.steps = steps
        if self._loose:
            self._loose_gradients.keep(self._loose_weights(), False)
        self._objects.keep()
        if marks >= self._rollback.next_mark:
            self._rollback.keep(self._optimizers(), self._buffers.changing())
        if is_time and regular:
            rest = min(max(marks, LEAST_REST), MOST_REST)
            self._keep_at = min(marks + rest, max(marks + 1, self._rollback.next_mark))
            self._state.look_at = min(self._keep_at, self._buffers.sort_at)
            self._state.may_skip = int(not self._loose and not self._objects)

    def _on_step(self, optimizer: Any) -> None:
        """A step of an optimizer that the gate does not know."""
        try:
            owned = self._owned.get(id(optimizer))
            if owned is None or owned.weights.reference() is not optimizer:
                owned = self._add(optimizer)
                self._stale = True
                self._gate.let_go("loop")
                owned.late = True
                owned.weights.keep(owned.weights.parameters(), -1)
            owned.weights.stepped = True
        except Exception as error:
            self._fail(error)

    def zeroed(self, thing: Any) -> None:
        """`zero_grad(set_to_none=False)` of an optimizer or a module has run."""
        try:
            for key in self._owners_of(thing):
                self._owned[key].zeroed = True
                self._state.zeroed = 1
        except Exception as error:
            self._fail(error)

    def _on_clear(self, thing: Any) -> None:
        """`zero_grad()` of an optimizer or a module that the gate does not know has run."""
        try:
            keys = self._owners_of(thing)
            for key in keys:
                owner = self._gate.owner(key)
                if owner is not None:
                    owner.cleared = 1
            if id(thing) in keys or self._buffers.knows(thing):
                self._gate.add_clearer(id(thing), keys)
        except Exception as error:
            self._fail(error)

    def _owners_of(self, thing: Any) -> List[int]:
        """The optimizers, by id, whose gradients its `zero_grad` reaches all."""
        known = self._owned.get(id(thing))
        if known is not None and known.weights.reference() is thing:
            return [id(thing)]
        if not hasattr(thing, "parameters"):
            return []
        reached = {id(parameter) for parameter in thing.parameters()}
        return [
            key
            for key, owned in self._owned.items()
            if all(id(p) in reached for p in owned.weights.parameters())
        ]

    def _fail(self, error: BaseException) -> None:
        """Nothing is kept from here on; a rewind is refused with this reason."""
        self._off = f"{type(error).__name__}: {error}"[:300]
        self._state.thread = _NEVER
        self._gate.let_go("loop")
        self._forget_all()
        if os.environ.get("PARAMEDIC_DEBUG"):
            sys.stderr.write(f"paramedic: rewinding is off: {self._off}\n")

    def _forget_all(self) -> None:
        self._owned, self._loose = {}, []
        self._buffers = Buffers(self._pace)
        self._objects = Objects()
        self._rollback = Rollback(self._pace)


def _sequence_function(torch: Any) -> int:
    """The address of what `torch.autograd._get_sequence_nr` asks; 0 where it is not found."""
    try:
        library = ctypes.CDLL(os.path.join(torch.__path__[0], "lib", "libtorch_cpu.so"))
        function = library._ZN2at15sequence_number4peekEv
    except (OSError, AttributeError):
        return 0
    function.argtypes, function.restype = [], ctypes.c_uint64
    if function() != torch.autograd._get_sequence_nr():
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _has_other_ranks() -> bool:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return False
    return bool(distributed.get_world_size() > 1)


def _shares_gradients(model: Any) -> bool:
    """Whether its backward pass is one of all ranks together."""
    if getattr(model, "reducer", None) is not None:
        return bool(getattr(model, "require_backward_grad_sync", True))
    return type(model).__name__.startswith(("FullyShardedDataParallel", "FSDP"))


def _is_forward(frame: FrameType) -> bool:
    name = frame.f_code.co_filename.replace("\\", "/")
    return frame.f_code.co_name == "_call_impl" and name.endswith("torch/nn/modules/module.py")


def _watched_optimizers() -> List[Any]:
    """Those that the adapter knows; some hide deeper than a search through frames goes."""
    adapter: Any = sys.modules.get("paramedic.adapters.torch")
    attached = getattr(adapter, "_attached", None)
    return list(attached[0].steps.optimizers()) if attached else []
