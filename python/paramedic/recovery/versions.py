"""Whether tensors were changed in an iteration, told without a look at them in each one.

A step of an optimizer adds the same to the version of a weight each time. Once this has been seen
to hold, the versions at the start of any iteration follow from the number of steps until then; what
differs from them was changed in the iteration, or by hand before it. Either is a reason to refuse.
"""

from __future__ import annotations

from typing import Any, List, Optional

PROOFS = 2  # how often the rule has to have held


class Pattern:
    """The versions of a list of tensors by the number of steps."""

    def __init__(self) -> None:
        self._tensors: List[Any] = []
        self._versions: List[int] = []
        self._steps = 0
        self._rates: Optional[List[float]] = None
        self._proofs = 0
        self.looks = 0  # since it was last known, or forgotten

    @property
    def is_known(self) -> bool:
        """Whether `changed` can be asked."""
        return self._proofs >= PROOFS

    def look(self, tensors: List[Any], steps: int) -> None:
        """Notes the versions after so many steps, and whether the rule holds; 0.1 µs a tensor."""
        versions = [tensor._version for tensor in tensors]
        taken, before = steps - self._steps, self._versions
        self.looks += 1
        if not _same(tensors, self._tensors):
            self.forget()
        elif taken > 0:
            rates = [(now - then) / taken for now, then in zip(versions, before)]
            held = rates == self._rates and all(rate.is_integer() for rate in rates)
            self._proofs = self._proofs + 1 if held else 0
            self._rates = rates
        elif versions != before:
            self.forget()
        self._tensors, self._versions, self._steps = tensors, versions, steps
        if self.is_known:
            self.looks = 0

    def changed(self, tensors: List[Any], steps: int) -> int:
        """How many of the tensors are not as they were after so many steps."""
        if self._rates is None or not _same(tensors, self._tensors):
            return len(tensors)
        taken = steps - self._steps
        expected = [then + rate * taken for then, rate in zip(self._versions, self._rates)]
        return sum(tensor._version != version for tensor, version in zip(tensors, expected))

    def forget(self) -> None:
        """Begins anew: somebody else has changed the tensors."""
        self._tensors, self._versions, self._rates, self._proofs = [], [], None, 0


def _same(first: List[Any], second: List[Any]) -> bool:
    return first is second or (
        len(first) == len(second) and all(a is b for a, b in zip(first, second))
    )
