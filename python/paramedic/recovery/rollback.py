"""Copies of weights and optimizer state from some iterations ago, for a rollback.

Where weights are lost before anybody raises (a loss that is not finite is noticed after the step,
or some steps later), the state at the start of the iteration may be lost as well. So one older copy
is kept, taken as often as the snapshot budget pays: its cost, over the iterations between two, is
the budget's share. A copy that holds a number that is not finite is not kept.
"""

from __future__ import annotations

import sys
import weakref
from time import perf_counter_ns
from typing import Any, List, Optional, Tuple

from paramedic.recovery.pace import Pace
from paramedic.recovery.tensors import Copies, quiet
from paramedic.recovery.weights import Kept

# Between two copies at least; and the first one, when the job has shown that it runs.
LEAST_MARKS = 20
FIRST_MARK = 2


class Rollback:
    """The older copy: there at any time, since two take turns."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._copies = (Copies(), Copies())
        self._turn = 0
        self._kept: Optional[Tuple[Kept, Copies, int]] = None
        self.next_mark = FIRST_MARK
        self._optimizers: List[Any] = []

    def keep(self, optimizers: List[Any], buffers: List[Any]) -> None:
        """Takes a copy, from `next_mark` on; called before an iteration changes anything."""
        pace = self._pace
        start = perf_counter_ns()
        # With the first that dies all is let go.
        self._optimizers = [weakref.ref(optimizer, self._died) for optimizer in optimizers]
        kept = Kept()
        for optimizer in optimizers:
            kept.add(optimizer.state)
            for group in optimizer.param_groups:
                kept.tensors.extend(group["params"])
        kept.tensors.extend(buffers)
        copies = self._copies[self._turn]
        if not copies.take(kept.tensors):
            self.next_mark = sys.maxsize
            return
        copies.release()
        if all_finite(copies.shadows()):
            self._kept = (kept, copies, pace.marks)
            self._turn = 1 - self._turn
        now = perf_counter_ns()
        affordable = max(1.0, pace.iteration_ns(now) * pace.share)
        self.next_mark = pace.marks + max(LEAST_MARKS, int((now - start) / affordable))

    def put_back(self) -> Optional[int]:
        """Gives everything the values of the copy; answers how many iterations ago it was taken,
        None where there is none."""
        if self._kept is None:
            return None
        kept, copies, mark = self._kept
        kept.put_back()
        with quiet():
            for tensor, shadow in zip(kept.tensors, copies.shadows()):
                tensor.copy_(shadow)
        return self._pace.marks - mark

    def _died(self, reference: Any) -> None:
        self._kept = None
        for copies in self._copies:
            copies.drop()
        self.next_mark = self._pace.marks + FIRST_MARK


def all_finite(tensors: List[Any]) -> bool:
    """Whether there is no NaN and no infinity in any of them."""
    torch: Any = sys.modules["torch"]
    with quiet():
        return all(
            bool(torch.isfinite(tensor).all())
            for tensor in tensors
            if tensor.is_floating_point() and tensor.numel()
        )
