"""Which passes over loaders belong together: those over one loader, and over loaders that are made
one after another by the same line.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional

from paramedic.adapters.torch.origins import Place
from paramedic.adapters.torch.shards.reading import Reading

MAX_SEATS = 100
FULL_PASSES = 4  # told with the sets of their samples; later ones when their number is 2^n
IDLE_PASSES = 3  # nothing was learnt from: a loader of an evaluation, no longer looked at


class Seat:
    """A line that makes loaders, one alive at a time; several seats where several are."""

    def __init__(self, made: Place) -> None:
        self.made = made
        self.name = ""  # given when it is known to train
        self.passes = 0  # that trained
        self.idle = 0
        self.batches_a_step = 0
        self.loop = ""
        self.loader: "Optional[weakref.ref[Any]]" = None


class Pass:
    """One pass over a loader, as long as its iterator lives."""

    def __init__(self, seat: Seat, reading: Reading, facts: Dict[str, Any], step: int) -> None:
        self.seat = seat
        self.reading = reading
        self.facts = facts  # of its event
        self.first_step = step
        self.number = seat.passes
        self.told = False
        self.over = False
        # Called when the iterator is let go: where its loop ends, at a `break` too.
        self.let_go: Any = None


class Seats:
    """All seats of a process."""

    def __init__(self) -> None:
        self._seats: Dict[Place, List[Seat]] = {}
        self._count = 0

    def take(self, loader: Any, made: Place) -> Optional[Seat]:
        """The seat of a loader that is about to be read; None when there are too many."""
        seats = self._seats.setdefault(made, [])
        free = None
        for seat in seats:
            known = seat.loader() if seat.loader is not None else None
            if known is loader:
                return seat
            if known is None and free is None:
                free = seat
        if free is None:
            if self._count >= MAX_SEATS:
                return None
            self._count += 1
            free = Seat(made)
            seats.append(free)
        free.loader = weakref.ref(loader)
        return free

    def name(self, seat: Seat) -> None:
        """Names a seat that is known to train: the same on all ranks, whatever else they read."""
        if not seat.name:
            named = sum(bool(other.name) for other in self._seats[seat.made])
            file = seat.made[0].replace("\\", "/").rpartition("/")[2]
            seat.name = f"{file}:{seat.made[1]}" + (f"#{named + 1}" if named else "")

    def clear(self) -> None:
        """Another process now."""
        self._seats.clear()
        self._count = 0


def is_full(number: int) -> bool:
    """Whether the samples of a pass are told one by one."""
    return number < FULL_PASSES or not number & (number - 1)
