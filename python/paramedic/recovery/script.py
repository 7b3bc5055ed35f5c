"""Makes the script look to itself and to its reader as if the interpreter had run it directly.

The interpreter runs a path that an importer claims through `runpy`, which leaves a spec, two frames
and an entry of sys.path behind. The first two go here, before the script's first statement; the
frames are taken out of what an exception that ends the script shows.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Optional

_file: Optional[str] = None  # the script, as the interpreter was given it


def claimed(file: str) -> None:
    """The loader will run `file` as the script."""
    global _file
    _file = file


def begin(scope: Dict[str, Any]) -> None:
    """Sets the names of `__main__` to what a plain run has."""
    file = scope.get("__file__")
    if file is None or file != _file:
        return
    if scope.get("__name__") == "__main__":
        from importlib.machinery import SourceFileLoader

        scope.update(
            __spec__=None,
            __package__=None,
            __cached__=None,
            __loader__=SourceFileLoader("__main__", file),
        )
        _restore_path(file)
    else:  # runpy.run_path, as multiprocessing's spawned children use it
        scope.update(__spec__=None, __package__="", __cached__=None, __loader__=None)
        if file in sys.path:
            sys.path.remove(file)
    sys.path_importer_cache.pop(file, None)


def _restore_path(file: str) -> None:
    if not sys.path or sys.path[0] != file:
        return
    if getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(file))


def trim_what_is_shown() -> None:
    """An exception ends the script: the hook that shows it will see the script's frames only."""
    if isinstance(sys.excepthook, _Trimming):
        return
    sys.excepthook = _Trimming(sys.excepthook)


class _Trimming:
    """Stands before the excepthook for one call."""

    def __init__(self, genuine: Any) -> None:
        self._genuine = genuine

    def __call__(self, kind: Any, error: Any, trace: Any) -> None:
        sys.excepthook = self._genuine
        trace = without_own_frames(trace)
        if isinstance(error, BaseException):
            error.__traceback__ = trace
        if hasattr(sys, "last_traceback"):
            sys.last_traceback = trace
        self._genuine(kind, error, trace)


def without_own_frames(trace: Any) -> Any:
    """The traceback without frames of ours in it; the frames before the first other one as well."""
    while trace is not None and _is_outside(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    current = trace
    while current is not None:
        following = current.tb_next
        while following is not None and _is_ours(following):
            following = following.tb_next
        current.tb_next = following
        current = following
    return trace


_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _is_outside(file: str) -> bool:
    return file == "<frozen runpy>" or file.endswith("runpy.py") or file.startswith(_OWN_FOLDER)


def _is_ours(entry: Any) -> bool:
    """A frame of recovery, or one that only hosts its own continuation."""
    if entry.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        return True
    below = entry.tb_next
    return below is not None and below.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER)
