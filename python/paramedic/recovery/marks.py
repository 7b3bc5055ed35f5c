"""What the heads of training loops tell: a loop was entered, an iteration starts.

`iteration` and `loop` are lists of functions that take the id of the loop, an integer that is the
same for each run of the same source. With nobody listening a call costs some tens of nanoseconds.
"""

from __future__ import annotations

from typing import Callable, List

Listener = Callable[[int], None]

iteration: List[Listener] = []
loop: List[Listener] = []
count = 0  # iterations of training loops that have started in this process
_connected = False


def iteration_started(loop_id: int) -> None:
    """An iteration of a loop that trains starts; an error of a listener takes it off the list."""
    global count
    count += 1
    if not _connected:
        _connect()
    for listener in iteration:
        try:
            listener(loop_id)
        except Exception:
            iteration.remove(listener)


def _connect() -> None:
    """The first iteration: from now on it is kept what one changes."""
    global _connected
    _connected = True
    try:
        from paramedic.recovery import rewind

        iteration.append(rewind.rewinder().mark)
        loop.append(rewind.rewinder().enter)
    except Exception as error:
        from paramedic import adapters

        adapters.note_failure("what an iteration changes", error)


def loop_entered(loop_id: int) -> None:
    """A loop that trains is about to start its first iteration."""
    for listener in loop:
        try:
            listener(loop_id)
        except Exception:
            loop.remove(listener)
