"""What a rule's action asks for in the process itself: `--on nan_origin=rollback`.

As with Ctrl-C, an exception that no job handles by `except Exception` is held at the barrier of the
innermost project frame, and the repair is ready by then. It is raised only where that will happen:
a job that cannot be rolled back goes on as it would have.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import List, Optional

from paramedic.recovery import dialogue, handled, rewind
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.crash import Crash, ProjectFrame


class NotFinite(KeyboardInterrupt):
    """A loss or a gradient is NaN or infinite."""


def roll_back(error: NotFinite) -> str:
    """Raises `error` in the middle of an iteration, which is left with weights from before it.

    Returns:
        Why it did not.
    """
    frames = _project_frames(sys._getframe(1))
    if not frames:
        return "no function of the project is at work"
    if not rewind.marks():
        return "no loop of the project trains"
    innermost = frames[-1].frame
    if handled.is_handled(innermost, innermost.f_lasti, error):
        return "the job handles an interruption itself"
    crash = Crash(error, frames, "MainThread", 0, asks=("rollback", "skip", "retry"))
    if dialogue.connect().is_to_be_raised(crash):
        raise error
    return "the agent does not answer"


def _project_frames(frame: Optional[FrameType]) -> List[ProjectFrame]:
    """Those of transformed code, the outermost first; none if the innermost cannot be held."""
    frames: List[ProjectFrame] = []
    while frame is not None:
        code = frame.f_code
        if runtime_of.of_code(code) is not None:
            line = frame.f_lineno or code.co_firstlineno
            frames.append(ProjectFrame(frame, code.co_filename, code.co_name, line, 0, False))
        elif not frames and runtime_of.newest(code.co_filename) is not None:
            return []
        frame = frame.f_back
    return frames[::-1]
