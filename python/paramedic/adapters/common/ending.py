"""How a rank ends: in good order, or of an exception that nobody caught.

The interpreter keeps that exception for debuggers once it has printed it, before the functions of
`atexit` run. In a child of multiprocessing it is still on its way when the child's finalizers run.
Nothing has to be hooked.
"""

import atexit
import os
import sys
from typing import Any, Callable, Dict, Optional

from paramedic.adapters.common.session import Session
from paramedic.adapters.common.source import Source, where

MAX_MESSAGE = 1000


def tell_end(session: Session, source: Source, stop: Callable[[], None]) -> None:
    """Has the end of this process told, before the ring is closed."""

    ended_in = 0  # which process; a forked child has an end of its own

    def end() -> None:
        nonlocal ended_in
        if ended_in == os.getpid():
            return
        ended_in = os.getpid()
        stop()
        if session.shared:
            session.tell("exiting", {"exception": _uncaught(source)})

    # In a script this runs before the session's own, which was registered first; in a child of
    # multiprocessing the session is closed by a finalizer.
    atexit.register(end)
    session.on_close.append(end)


def _uncaught(source: Source) -> Optional[Dict[str, Any]]:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    error = error or sys.exc_info()[1]
    # Who ends with a code because of an exception, as children of torch's spawn do.
    if isinstance(error, SystemExit):
        error = error.__context__ if error.code else None
    if not isinstance(error, BaseException):
        return None
    trace, spot = error.__traceback__, ("", 0, "")
    while trace is not None:
        code = trace.tb_frame.f_code
        if source.is_user(code):
            spot = (code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return {
        "type": type(error).__name__,
        "message": str(error)[:MAX_MESSAGE],
        "where": where(spot),
    }
