"""The short way through steps at which nothing is due.

What runs between two operations of torch finds nothing of itself in the caches: there a call
through ctypes costs 4-5 µs, ten times what it costs in a loop. So from one step at which something
is due to the next one (a stretch) a step is three small things in plain Python: the loss is read
where it lies and kept in a buffer, a gradient is looked at, the step is counted. Whatever is not as
it was when the stretch began (another line, another optimizer, a closure, a number that is not
finite) leaves the short way; the rest of that step goes the usual one, which decides what it means.
"""

import sys
import weakref
from _thread import get_ident
from math import nan
from time import perf_counter_ns
from typing import Any, Callable, Dict, List, Optional

from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.memory import FLOAT32_MAX, Memory
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.session import Session

# What a stretch may keep back from the ring: a job that is killed loses no more than this.
STRETCH_NS = 100_000_000
# Where recovery does not keep it, the random state is kept at each step (5 µs): the search for a
# NaN repeats the iteration, and a batch that was drawn at random is not the same without it. Of
# shorter steps than these, where it would cost more than 1 %, only at the beginning, when most NaNs
# are born.
RANDOM_STATE_FROM_NS = 500_000
RANDOM_STATE_STEPS = 2000
VALUES = 6  # of a gradient, looked at in each step; a NaN of the pass is in most units of a layer
SUM_MAX = 6 * FLOAT32_MAX


def _nothing() -> None:
    return None


class _NoParameter:
    """Called in place of a reference: there is no gradient to look at."""

    grad = None


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
    """The state of a stretch. Every attribute that a step reads is set when it begins."""

    def __init__(self, session: Session, phases: Phases, memory: Memory) -> None:
        torch = session.torch
        self._session = session
        self._phases = phases
        self._floats: Any = memory.floats
        self._probe: Any = None
        self._float32 = torch.float32
        self._tensor = torch.Tensor
        # Whether the open step goes this way.
        self.on = False
        # Lines by where their code stands in memory: address of the code and place in it.
        self._lines: Dict[int, Line] = {}
        self._optimizer: Callable[[], Any] = _nothing
        self._rates: List[Any] = []
        self._rate_numbers: List[int] = []
        self._parameter: Callable[[], Any] = _NoParameter
        self._last_step = 0
        self._end_ns = 0
        self._steps = 0
        self._first_ns = 0
        self._last_ns = 0
        # The first step of a stretch is timed, for all of them.
        self._timed = False
        self._timed_ns = 0
        self._keep_random = False
        self.step_ns = 0.0
        # The hook after a step: it is out of the way during a stretch.
        self.post_hook: Optional[GlobalHook] = None
        # Set by the search for a NaN: keeps the random state; and whether it wants each step's,
        # asked with whether that costs little.
        self.keep_random_state: Callable[[], None] = _nothing
        self.wants_random_state: Callable[[bool], bool] = lambda costs_little: False
        # Set by the steps: told how many a stretch has taken.
        self.after_stretch: Callable[[int], None] = lambda steps: None
        # Set by the fingerprints: the first step from the one given on that they have to see.
        self.next_wanted: Callable[[int], int] = lambda step: sys.maxsize
        session.on_fork.append(self._reset)

    def note_line(self, caller: Any, line: Line) -> None:
        """Remembers where `backward()` is called from, when that is the user's line itself."""
        if caller is not None and caller.f_code is line.code:
            self._lines[id(line.code) + caller.f_lasti] = line

    def forget_lines(self) -> None:
        """A new fit: its losses are told first."""
        self._lines.clear()

    def begin(
        self,
        optimizer: "weakref.ref[Any]",
        parameter: "Optional[weakref.ref[Any]]",
        rates: List[Any],
        rate_numbers: List[int],
    ) -> None:
        """A stretch begins with the step that was just opened."""
        session = self._session
        probe = session.probe
        if self._floats is None or probe is None or not self._lines:
            return
        self._optimizer = optimizer
        self._probe = probe
        self._parameter = parameter if parameter is not None else _NoParameter
        self._rates, self._rate_numbers = rates, rate_numbers
        due = probe.next_due(session.step - 1) - 1
        self._last_step = min(due, self.next_wanted(session.step))
        self._keep_random = self.wants_random_state(
            self.step_ns >= RANDOM_STATE_FROM_NS or session.step < RANDOM_STATE_STEPS
        )
        self._steps = 0
        self._timed_ns = 0
        self._timed = True
        self._first_ns = self._last_ns = perf_counter_ns()
        self._end_ns = self._first_ns + STRETCH_NS
        self.on = True

    def leave(self) -> None:
        """The open step goes the usual way from here on; nothing when it does already."""
        if not self.on:
            return
        self.on = False
        if self._steps:
            self.after_stretch(self._steps)
            self._session.spent_ns += self._timed_ns * self._steps
            self.step_ns = (self._last_ns - self._first_ns) / self._steps
            self._phases.begin_step(self._last_ns)

    def loss(self, tensor: Any, args: Any, caller: Any) -> bool:
        """Keeps the loss; False when this is no such step."""
        start = perf_counter_ns() if self._timed else 0
        try:
            code, session, probe = caller.f_code, self._session, self._probe
            line = self._lines.get(id(code) + caller.f_lasti)
            # A backward pass inside another one never comes from a line that was noted.
            if (
                line is None
                or line.code is not code
                or type(tensor) is not self._tensor
                or tensor.dtype is not self._float32
                or not tensor.is_cpu
                or not args
                or args[0] is not None
                or session.thread != get_ident()
            ):
                return False
            pointer = tensor.data_ptr()
            if not pointer:
                return False
            value = self._floats[pointer >> 2]
            if not -FLOAT32_MAX <= value <= FLOAT32_MAX:
                return False
            probe.number(session.step, line.number, value)
        except Exception:
            # The usual way finds out, and says it.
            return False
        if start:
            self._timed_ns += perf_counter_ns() - start
        return True

    def step(self, optimizer: Any, args: Any, kwargs: Any) -> bool:
        """Ends the step; False when the usual way has to."""
        now = perf_counter_ns()
        session = self._session
        step = session.step
        try:
            if (
                now >= self._end_ns
                or step >= self._last_step
                or optimizer is not self._optimizer()
                or len(args) > 1
                or kwargs
                or session.thread != get_ident()
            ):
                return False
            groups, rates = optimizer.param_groups, self._rates
            if len(groups) != len(rates):
                return False
            for index, group in enumerate(groups):
                rate = group["lr"]
                if rate is not rates[index] and not self._new_rate(index, rate):
                    return False
            # Autograd gives a gradient the layout of its parameter, whose type and size were
            # looked at when the stretch began; only the place may have changed since.
            gradient = self._parameter().grad
            if gradient is not None:
                if not gradient.is_cpu:
                    return False
                a, f = gradient.data_ptr() >> 2, self._floats
                # A slice would cost 3 µs.
                total = f[a] + f[a + 1] + f[a + 2] + f[a + 3] + f[a + 4] + f[a + 5] if a else nan
                if not -SUM_MAX <= total <= SUM_MAX:
                    return False
        except Exception:
            return False
        session.step = step + 1
        self._steps += 1
        self._last_ns = now
        if self._timed:
            self._timed = False
            if self.post_hook is not None:
                self.post_hook.disarm()
            self._timed_ns += perf_counter_ns() - now
        if self._keep_random:
            self.keep_random_state()
        return True

    def _new_rate(self, index: int, rate: Any) -> bool:
        if rate == self._rates[index]:
            return True
        if type(rate) is not float:
            return False
        self._rates[index] = rate
        self._probe.number(self._session.step, self._rate_numbers[index], rate)
        return True

    def _reset(self) -> None:
        self.on = False
        self._lines.clear()
