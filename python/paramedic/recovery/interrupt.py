"""Ctrl-C on a terminal: one offers "pause and repair", two end the job.

The handler runs between two bytecodes of the main thread, so that a job which goes on does so
exactly where it stood. Repairs that go on elsewhere raise the KeyboardInterrupt after all: the
barrier of the frame holds it, and asks the dialogue, which has the repair ready.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import List, Optional

_asking = False


def install() -> None:
    """Takes the place of Python's own handler; a job that has another one, or none, keeps it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_interrupt)


def _on_interrupt(number: int, frame: Optional[FrameType]) -> None:
    global _asking
    if not _asking:
        _asking = True
        try:
            if _goes_on(frame):
                return
        except KeyboardInterrupt:
            pass  # the second one
        except Exception as error:
            if os.environ.get("PARAMEDIC_DEBUG"):
                print(f"paramedic: Ctrl-C is not held: {error!r}")
        finally:
            _asking = False
    raise KeyboardInterrupt


def _goes_on(frame: Optional[FrameType]) -> bool:
    """Asks; whether the job goes on as if nothing had been."""
    from paramedic.recovery import dialogue
    from paramedic.recovery.crash import Crash, ProjectFrame
    from paramedic.recovery.runtime import newest

    frames: List[ProjectFrame] = []
    while frame is not None:
        code = frame.f_code
        if newest(code.co_filename) is not None:
            line = frame.f_lineno or code.co_firstlineno
            frames.append(ProjectFrame(frame, code.co_filename, _name(code), line, 0, False))
        frame = frame.f_back
    frames.reverse()
    crash = Crash(KeyboardInterrupt("Ctrl-C"), frames, "MainThread", 0)
    return dialogue.connect().interrupted(crash)


def _name(code: object) -> str:
    return str(getattr(code, "co_qualname", "") or getattr(code, "co_name", "?"))
