"""How long an iteration takes, and whether a copy of something is worth its cost at each one.

The rule: a copy is taken at each iteration when its measured cost is within the snapshot budget (a
share of the iteration), or when it is tiny. Besides, a process may spend a quarter of a second on
copies that cost more: a short job is covered from end to end, a long one in its first minutes,
where most crashes are, and on the average of a day that is nothing. What is too costly is tried and
measured once in a thousand iterations, since costs change (a larger batch, a device no longer
shared). The first iterations are always copied: there an optimizer makes its state.
"""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import Any, Callable

DEFAULT_BUDGET_SHARE = 0.003
FIRST_COPIES = 3
MEASURE_AGAIN_EVERY = 1024  # marks
WINDOW = 16  # marks over which the length of an iteration is measured
CREDIT_NS = 250_000_000
CREDIT_SHARE = 0.1  # of an iteration, at most
# Tiny: at most this long, and at most this share of the iteration.
TINY_NS = 20_000
TINY_SHARE = 0.02


def budget_share() -> float:
    """The share of the time that copies may take: PARAMEDIC_SNAPSHOT_BUDGET, 0.003 or "0.3%"."""
    text = os.environ.get("PARAMEDIC_SNAPSHOT_BUDGET", "").strip()
    try:
        share = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = DEFAULT_BUDGET_SHARE
    return max(0.0, share)


class Pace:
    """The marks of one thread: how many, and how far apart they are."""

    def __init__(self) -> None:
        self.marks = 0
        self.share = budget_share()
        # A budget of nothing is a wish for nothing.
        self.credit_ns = float(CREDIT_NS) if self.share else 0.0
        self._iteration_ns = 0.0
        self._since_marks = 0
        self._since_ns = perf_counter_ns()

    def iteration_ns(self, now: int) -> float:
        """How long an iteration takes, on the average of the last ones. No clock runs at a mark."""
        marks = self.marks - self._since_marks
        if marks >= WINDOW or (not self._iteration_ns and marks):
            self._iteration_ns = (now - self._since_ns) / marks
            self._since_marks, self._since_ns = self.marks, now
        return self._iteration_ns


class Allowance:
    """The rule for one thing that is copied."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._left = FIRST_COPIES
        self._refused_until = 0
        self._cost_ns = 0.0

    def grants(self, tiny_ns: float = TINY_NS, tiny_share: float = TINY_SHARE) -> bool:
        """Whether to take the copy now."""
        if self._left:
            self._left -= 1
            return True
        pace = self._pace
        if pace.marks < self._refused_until:
            return False
        iteration = pace.iteration_ns(perf_counter_ns())
        if self._cost_ns <= max(pace.share * iteration, min(tiny_ns, tiny_share * iteration)):
            return True
        if self._cost_ns <= min(pace.credit_ns, CREDIT_SHARE * iteration):
            pace.credit_ns -= self._cost_ns
            return True
        if pace.marks % MEASURE_AGAIN_EVERY < WINDOW:
            # The next answer is no again, unless this copy shows that it costs less now.
            self._refused_until = pace.marks + WINDOW
            return True
        self._refused_until = pace.marks + WINDOW
        return False

    def paid(self, copy: Callable[..., bool], *args: Any) -> bool:
        """Runs `copy` and remembers what it took; answers what it answered: whether it copied.

        The least time counts, slowly forgotten: what is more is other people's noise.
        """
        start = perf_counter_ns()
        copied = copy(*args)
        cost = float(perf_counter_ns() - start)
        # What cannot be copied is not tried each time.
        cost = cost if copied else float("inf")
        before = self._cost_ns
        self._cost_ns = min(cost, before * 1.1) if before else cost
        return copied
