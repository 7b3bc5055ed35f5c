"""The short way through steps at which nothing is due.

What runs between two operations of torch finds nothing of itself in the caches, and Python is slow
there: 15 to 20 µs for what takes 4 in a loop. So from one step at which something is due to the
next one (a stretch) all that is done in a step is done by native functions (stretch.py): the loss
is read where it lies and kept in a buffer, a gradient is looked at, the step is counted. Whatever
is not as it was when the stretch began (another line, another optimizer, a closure, a number that
is not finite) leaves the short way; the rest of that step goes the usual one, which decides what it
means. Where there can be no native functions every step goes the usual way.
"""

import ctypes
import sys
import weakref
from time import perf_counter_ns
from typing import Any, Callable, Dict, List, Optional, Tuple

from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.stretch import MAX_LINES, MAX_RATES, Stretch

# What a stretch may keep back from the ring: a job that is killed loses no more than this.
STRETCH_NS = 100_000_000
# Where recovery does not keep it, the random state is kept at each step (5 µs): the search for a
# NaN repeats the iteration, and a batch that was drawn at random is not the same without it. Of
# shorter steps than these, where it would cost more than 1 %, only at the beginning, when most NaNs
# are born.
RANDOM_STATE_FROM_NS = 500_000
RANDOM_STATE_STEPS = 2000
VALUES = 6  # of a gradient, looked at in each step (stretch.cc)


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


class Quick:
    """The state of a stretch; what its steps need of it lies in the native structure."""

    def __init__(self, session: Session, phases: Phases) -> None:
        self._session = session
        self._phases = phases
        # Whether the open step goes this way.
        self.on = False
        self._stretch: Optional[Stretch] = None
        self._is_refused = False
        # Lines by their code and the place in it.
        self._lines: Dict[Tuple[int, int], Line] = {}
        self._lines_are_set = False
        self._rates: List[Any] = []
        # Called with a tensor, the further arguments, and the frame that calls `backward()`: True
        # when the loss is kept, and the pass goes this way.
        self.loss: Callable[[Any, Any, Any], bool] = lambda tensor, args, frame: False
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
        # Set by the steps: told how many a stretch has taken.
        self.after_stretch: Callable[[int], None] = lambda steps: None
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

    def begin(
        self,
        optimizer: "weakref.ref[Any]",
        parameter: "Optional[weakref.ref[Any]]",
        rates: List[Any],
        rate_numbers: List[int],
    ) -> None:
        """A stretch begins with the step that was just opened."""
        session = self._session
        probe, stretch, owner = session.probe, self._native(), optimizer()
        if (
            stretch is None
            or probe is None
            or owner is None
            or not self._lines
            or len(rates) > MAX_RATES
            or not all(type(rate) in (float, int) for rate in rates)
        ):
            return
        state = stretch.state
        state.numbers = ctypes.addressof(probe.numbers)
        state.thread = session.thread
        state.optimizer = id(owner)
        state.step = session.step
        due = probe.next_due(session.step - 1) - 1
        state.last_step = min(due, self.next_wanted(session.step))
        self._set_lines(state)
        self._rates = rates
        state.rate_count = len(rates)
        for at, rate in enumerate(rates):
            state.rates[at] = (id(type(rate)), rate, rate_numbers[at])
        self._hold_or_let_go("parameter", parameter)
        wants_random = self.wants_random_state(
            self.step_ns >= RANDOM_STATE_FROM_NS or session.step < RANDOM_STATE_STEPS
        )
        self._hold_or_let_go("on_keep", self.keep_random_state if wants_random else None)
        state.steps = state.own_ns = 0
        state.first_ns = state.last_ns = now = perf_counter_ns()
        state.end_ns = now + STRETCH_NS
        # Of the second step it is measured what it takes of ours, for all of them.
        state.timed, state.on = 2, 1
        self.on = True

    def leave(self) -> None:
        """The open step goes the usual way from here on; nothing when it does already."""
        if not self.on or self._stretch is None:
            return
        state = self._stretch.state
        self.on = False
        state.on = 0
        steps = state.steps
        if steps:
            self.after_stretch(steps)
            self._session.spent_ns += state.own_ns * steps
            self.step_ns = (state.last_ns - state.first_ns) / steps
            self._phases.begin_step(state.last_ns)
        for at, rate in enumerate(self._rates):
            now = state.rates[at].value
            if rate != now:
                self._rates[at] = now

    def _native(self) -> Optional[Stretch]:
        if self._stretch is None and not self._is_refused and self.pre_hook is not None:
            try:
                stretch = Stretch(self._session.torch, self._session, self._first_is_over)
                stretch.hold("on_step", self.usual_step)
            except Exception:
                # Nothing is lost but some microseconds a step.
                self._is_refused = True
                return None
            self._stretch = stretch
            self.loss = stretch.loss
            self.pre_hook.replace(stretch.step)
        return self._stretch

    def _set_lines(self, state: Any) -> None:
        if self._lines_are_set:
            return
        state.line_count = min(len(self._lines), MAX_LINES)
        for at, ((code, place), line) in enumerate(self._lines.items()):
            if at < MAX_LINES:
                state.lines[at] = (code, place, line.number)
        self._lines_are_set = True

    def _hold_or_let_go(self, name: str, thing: Any) -> None:
        assert self._stretch is not None
        if thing is None:
            self._stretch.let_go(name)
        else:
            self._stretch.hold(name, thing)

    def _first_is_over(self) -> None:
        if self.post_hook is not None:
            self.post_hook.disarm()

    def _reset(self) -> None:
        self.on = False
        if self._stretch is not None:
            self._stretch.state.on = 0
        self._lines.clear()
        self._lines_are_set = False
