"""How a rank ends: in good order, or of an exception that nobody caught.

The interpreter keeps that exception for debuggers once it has printed it, before the functions of
`atexit` run: nothing has to be hooked.
"""

import atexit
import sys
from typing import Any, Callable, Dict, Optional

from paramedic.adapters.common.session import Session
from paramedic.adapters.common.source import Source, where

MAX_MESSAGE = 1000


def tell_end(session: Session, source: Source, stop: Callable[[], None]) -> None:
    """Has the end of this process told, before the ring is closed."""

    def end() -> None:
        stop()
        if session.shared:
            session.tell("exiting", {"exception": _uncaught(source)})

    # Run before the session's own, which was registered first.
    atexit.register(end)


def _uncaught(source: Source) -> Optional[Dict[str, Any]]:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
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
