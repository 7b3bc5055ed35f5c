"""What the heads of training loops tell: a loop was entered, an iteration starts.

The functions take the id of the loop, an integer that is the same for each run of the same source.
They stand in the runtime of transformed code until the first iteration; from then on the rewinder's
own stand there.
"""

from __future__ import annotations

from typing import Any, Callable

Mark = Callable[[int], None]


def connect(runtime: Any) -> None:
    """Lets the class `runtime` hear of training loops."""
    runtime.loop_entered = staticmethod(nothing)

    def first(loop_id: int) -> None:
        """The first iteration: from now on it is kept what one changes."""
        runtime.iteration_started = staticmethod(nothing)
        try:
            from paramedic.recovery import rewind

            own = rewind.rewinder()
            runtime.iteration_started, runtime.loop_entered = own.mark, own.enter
            own.mark(loop_id)
        except Exception as error:
            from paramedic import adapters

            adapters.note_failure("what an iteration changes", error)

    runtime.iteration_started = staticmethod(first)


def nothing(loop_id: int) -> None:
    """Nobody listens."""
