"""`@paramedic.protect`: recovery for one function, without `paramedic run`; for notebooks.

Only this function, and functions inside it, can be continued: a crash in what it calls goes on at
the statement of it that called. The person answers with `paramedic attach` in a terminal.
"""

from __future__ import annotations

import linecache
import os
import sys
import types
from typing import Any

MAX_LINES = 100_000


def protect(function: Any) -> Any:
    """See `paramedic.protect`."""
    if sys.version_info < (3, 11):
        return _unprotected(function, "recovery needs Python 3.11 or newer")
    if not isinstance(function, types.FunctionType):
        return _unprotected(function, "only plain functions can be protected")
    from paramedic.recovery import runtime as runtime_of

    if runtime_of.of_code(function.__code__) is not None:
        return function  # it runs under `paramedic run`
    try:
        _transform(function)
    except Exception as error:
        return _unprotected(function, f"{type(error).__name__}: {error}")
    _have_an_agent()
    return function


def _transform(function: types.FunctionType) -> None:
    """Gives the function the code that a transform of its whole file would have given it."""
    from paramedic.recovery import live, resume, source  # noqa: F401
    from paramedic.recovery import runtime as runtime_of

    code = function.__code__
    runtime = runtime_of.newest(code.co_filename)
    if runtime is None or runtime.source.of_code(code) is None:
        lines = linecache.getlines(code.co_filename, function.__globals__)[:MAX_LINES]
        if not lines:
            raise OSError(f"the source of {code.co_filename} is not there")
        made = source.parse(code.co_filename, "".join(lines).encode())
        runtime = runtime_of.Runtime(code.co_filename, lambda: made)
        runtime_of.add(runtime)
    found = runtime.source.of_code(code)
    if found is None:
        raise LookupError(f"{code.co_qualname} is not in the source of its file")
    function.__code__ = live.code_of(runtime, found, code.co_freevars)
    runtime.made(function)


def _have_an_agent() -> None:
    if os.environ.get("PARAMEDIC_RUN"):
        return
    from paramedic import _watch

    os.environ.setdefault("PARAMEDIC_ON_CRASH", "wait")
    _watch._start("", "")


def _unprotected(function: Any, why: str) -> Any:
    import warnings

    name = getattr(function, "__qualname__", repr(function))
    warnings.warn(f"paramedic does not protect {name}: {why}", RuntimeWarning, stacklevel=4)
    return function
