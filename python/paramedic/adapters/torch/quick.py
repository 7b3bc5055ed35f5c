"""The short way through steps at which nothing is due.

What runs between two operations of torch finds nothing of itself in the caches, and Python is slow
there: 15 to 20 µs for what takes 4 in a loop. So from one step at which something is due to the
next one (a stretch) all that is done in a step is done by native functions (stretch.py): the loss
is read where it lies and kept in a buffer, a gradient is looked at, the step is counted. Whatever
is not as it was when the stretch began (another line, another optimizer, a closure, a number that
is not finite) leaves the short way; the rest of that step goes the usual one, which decides what it
means. Where there can be no native functions every step goes the usual way.

Several optimizers take part in one stretch, each with its own rates and gradient; when a step is
over is decided as steps.py does.
"""

import contextlib
import ctypes
import sys
import weakref
from time import perf_counter_ns
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.stretch import MAX_LINES, MAX_OPTIMIZERS, MAX_RATES, Stretch
from paramedic.recovery.gate import Gate
from paramedic.recovery.random_state import TorchRandom

# What a stretch may keep back from the ring: a job that is killed loses no more than this. And how
# long it may last.
TICK_NS = 100_000_000
STRETCH_NS = 1_000_000_000
# Where recovery does not keep it, the random state is kept at each step: the search for a NaN
# repeats the iteration, and a batch that was drawn at random is not the same without it. Where it
# cannot be kept natively that is 5 µs: of shorter steps than these, which it would cost more than
# 1 %, only at the beginning, when most NaNs are born.
RANDOM_STATE_FROM_NS = 500_000
RANDOM_STATE_STEPS = 2000
VALUES = 6  # of a gradient, looked at in each step (stretch.cc)
# After a stretch that took no step of an optimizer so many usual steps are waited for, doubled each
# time: losses on a device, say, never go this way, and to begin costs more than it is worth then.
MAX_PAUSE_STEPS = 64


def _nothing() -> None:
    return None


class Line:
    """A line that calls `backward()`. Holds the code, so that its id stays its own."""

    __slots__ = ("code", "name", "number", "place", "told_fit")

    def __init__(self, code: Any, name: str, number: int, spot: Any) -> None:
        self.code = code
        self.name = name
        self.number = number
        self.place = spot
        self.told_fit = -1


class Member(NamedTuple):
    """An optimizer of a stretch. `optimizer` is None for one whose steps go the usual way, but for
    which a step is waited; `last_step`: in which it stepped last, or was made."""

    optimizer: "Optional[weakref.ref[Any]]"
    parameter: "Optional[weakref.ref[Any]]"
    rates: List[Any]
    rate_numbers: List[int]
    last_step: int
    is_stepped: bool


class Taken(NamedTuple):
    """What an optimizer did in a stretch."""

    steps: int
    last_step: int
    is_stepped: bool  # in the step that is open


class Taking(NamedTuple):
    """What was done in a stretch: the steps that it has ended, what its members did, the names of
    lines that called `backward()` in the open step, and up to when all is accounted for."""

    steps: int
    members: List[Taken]
    lines: Set[str]
    told_ns: int


class Quick:
    """The state of a stretch; what its steps need of it lies in the native structure."""

    def __init__(self, session: Session, phases: Phases) -> None:
        self._session = session
        self._phases = phases
        # Whether the open step goes this way.
        self.on = False
        # None where there can be none; nothing is lost then but some microseconds a step.
        self.stretch: Optional[Stretch] = None
        self._random: Optional[TorchRandom] = None
        self._is_random_known = False
        # Lines by their code and the place in it.
        self._lines: Dict[Tuple[int, int], Line] = {}
        self._told_lines: List[Line] = []
        self._lines_are_set = False
        self._members: List[Member] = []
        self._pause = self._pause_left = 0
        self.step_ns = 0.0
        # Set by the steps: the hooks before and after an optimizer's step, and what is called
        # before one that does not go this way. The one after it is out of the way in a stretch.
        self.pre_hook: Optional[GlobalHook] = None
        self.post_hook: Optional[GlobalHook] = None
        self.usual_step: Callable[[Any, Any, Any], None] = lambda optimizer, args, kwargs: None
        # Set by the search for a NaN: keeps the random state; and whether it wants each step's,
        # asked with whether that costs little.
        self.keep_random_state: Callable[[], None] = _nothing
        self.wants_random_state: Callable[[bool], bool] = lambda costs_little: False
        # Set by the steps.
        self.after_stretch: Callable[[Taking], None] = lambda taking: None
        # Set by the steps: something is due in the step that was opened in a stretch.
        self.on_due: Callable[[], None] = _nothing
        # Set by the fingerprints: the first step from the one given on that they have to see.
        self.next_wanted: Callable[[int], int] = lambda step: sys.maxsize
        session.on_fork.append(self._reset)
        session.on_close.append(self.leave)

    def note_line(self, caller: Any, line: Line) -> None:
        """Remembers where `backward()` is called from, when that is the user's line itself."""
        if caller is None or caller.f_code is not line.code:
            return
        key = id(line.code), caller.f_lasti
        if self._lines.get(key) is not line:
            self._lines[key] = line
            self._lines_are_set = False

    def forget_lines(self) -> None:
        """A new fit: its losses are told first."""
        self._lines.clear()
        self._lines_are_set = False
        self._pause = self._pause_left = 0

    def begin(
        self, members: List[Member], lines: Set[str], forget_steps: int, told_ns: int
    ) -> None:
        """A stretch begins with the open step, in which the named lines called `backward()`; what
        was up to `told_ns` is accounted for."""
        session = self._session
        if self._pause_left > 0:
            self._pause_left -= 1
            return
        probe, stretch = session.probe, self.stretch
        if (
            stretch is None
            or probe is None
            or not self._lines
            or len(members) > MAX_OPTIMIZERS
            or sum(len(member.rates) for member in members) > MAX_RATES
        ):
            return
        state = stretch.state
        state.numbers = ctypes.addressof(probe.numbers)
        state.thread = session.thread
        state.step = session.step
        state.ask_step = probe.next_due(session.step)
        state.last_step = self.next_wanted(session.step)
        self._set_lines(state, lines)
        self._set_members(state, members)
        state.forget_steps = forget_steps
        self._keep_random_state(stretch)
        state.steps = state.own_ns = state.told_steps = 0
        state.first_ns = state.last_ns = now = perf_counter_ns()
        state.end_ns = now + STRETCH_NS
        state.tick_ns, state.tick_every_ns = now + TICK_NS, TICK_NS
        state.told_ns = told_ns
        # Of the second step, and of one after each tick, it is measured what it takes of ours, for
        # all up to the next.
        state.timed, state.is_first, state.on = 2, 1, 1
        self.on = True

    def _set_members(self, state: Any, members: List[Member]) -> None:
        # Keeps the references whose addresses are written down.
        self._members = members
        state.optimizer_count = len(members)
        first_rate = 0
        for at, member in enumerate(members):
            owner = None if member.optimizer is None else member.optimizer()
            parameter = member.parameter
            count = len(member.rates)
            state.optimizers[at] = (
                *(0 if owner is None else id(owner), 0 if parameter is None else id(parameter)),
                *(first_rate, count, member.last_step, member.is_stepped, 0),
            )
            for rate, number in zip(member.rates, member.rate_numbers):
                state.rates[first_rate] = (id(type(rate)), rate, number)
                first_rate += 1

    def _find_random_state(self, stretch: Stretch) -> None:
        if self._is_random_known:
            return
        self._is_random_known = True
        try:
            self._random = TorchRandom(stretch, self._session.torch.default_generator)
        except Exception:
            # It is asked for.
            self._random = None

    def _keep_random_state(self, stretch: Stretch) -> None:
        self._find_random_state(stretch)
        natively = self._random is not None and self._random.is_native
        is_long = self.step_ns >= RANDOM_STATE_FROM_NS
        is_early = self._session.step < RANDOM_STATE_STEPS
        wanted = self.wants_random_state(natively or is_long or is_early)
        stretch.keep_piece(wanted and natively)
        asks = wanted and not natively
        self._hold_or_let_go("on_keep", self.keep_random_state if asks else None)

    def leave(self) -> None:
        """The open step goes the usual way from here on; nothing when it does already."""
        if not self.on or self.stretch is None:
            return
        state = self.stretch.state
        self.on = False
        state.on = 0
        steps = state.steps
        taken = [
            Taken(one.steps, one.last_step, bool(one.is_stepped))
            for one in state.optimizers[: state.optimizer_count]
        ]
        lines = {line.name for at, line in enumerate(self._told_lines) if state.lines[at].is_seen}
        self.after_stretch(Taking(steps, taken, lines, state.told_ns))
        if steps:
            self._session.spent_ns += state.own_ns * (steps - state.told_steps)
            self.step_ns = (state.last_ns - state.first_ns) / steps
            self._phases.begin_step(state.last_ns)
        self._take_back_rates(state)
        took_none = not any(one.steps for one in taken)
        self._pause = min(2 * self._pause + 1, MAX_PAUSE_STEPS) if took_none else 0
        self._pause_left = self._pause

    def _take_back_rates(self, state: Any) -> None:
        at = 0
        for member in self._members:
            for index, rate in enumerate(member.rates):
                now = state.rates[at].value
                if rate != now:
                    member.rates[index] = now
                at += 1

    def watch(self) -> None:
        """Makes the native functions, where there can be some, and puts one before the steps."""
        with contextlib.suppress(OSError):
            self.stretch = stretch = Stretch(self._session.torch, self._session)
            stretch.hold("on_step", self.usual_step)
            stretch.hold("on_first", self._first_is_over)
            stretch.hold("on_due", self.on_due)
            if self.pre_hook is not None:
                self.pre_hook.replace(stretch.step)

    def tell(self, gate: Gate) -> bool:
        """Has a gate told of each step by the function that is there anyway; False where there is
        none."""
        if self.stretch is None:
            return False
        self.stretch.state.gate = ctypes.addressof(gate.state)
        return True

    def random_state(self) -> Any:
        """That at the start of the open step, as `get_state` has it; None where it was not kept."""
        if self.stretch is None or self._random is None or not self._random.is_native:
            return None
        is_kept = self.stretch.state.random_step == self._session.step
        return self._random.state() if is_kept else None

    def _set_lines(self, state: Any, seen: Set[str]) -> None:
        if self._lines_are_set:
            for at, line in enumerate(self._told_lines):
                state.lines[at].is_seen = line.name in seen
            return
        self._told_lines = list(self._lines.values())[:MAX_LINES]
        state.line_count = len(self._told_lines)
        for at, ((code, place), line) in enumerate(zip(self._lines, self._told_lines)):
            state.lines[at] = (code, place, line.number, line.name in seen)
        self._lines_are_set = True

    def _hold_or_let_go(self, name: str, thing: Any) -> None:
        assert self.stretch is not None
        if thing is None:
            self.stretch.let_go(name)
        else:
            self.stretch.hold(name, thing)

    def _first_is_over(self) -> None:
        if self.post_hook is not None:
            self.post_hook.disarm()

    def _reset(self) -> None:
        self.on = False
        if self.stretch is not None:
            self.stretch.state.on = 0
        self._lines.clear()
        self._lines_are_set = False
