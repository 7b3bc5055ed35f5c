"""Whose code is running: the lines of the user's own files.

A frame is the user's when its file is neither Paramedic's nor the framework's. Where the job's
loop stands in an installed package (Lightning, accelerate) the innermost frame outside of all
packages is preferred, since that is a line the user can change.
"""

import os
from types import CodeType, FrameType
from typing import Any, Dict, List, Optional, Tuple

from paramedic._library import is_library

MAX_FRAMES = 200
_LEVELS = range(MAX_FRAMES)

_PARAMEDIC = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep

# Ranks of a file.
_OURS, _FRAMEWORK, _INSTALLED, _USER = range(4)


class Source:
    """Finds the user's frame on a stack; remembers the rank of each file."""

    USER = _USER

    def __init__(self, framework: Any) -> None:
        self._framework = os.path.dirname(os.path.abspath(framework.__file__)) + os.sep
        self._ranks: Dict[str, int] = {}

    def rank(self, filename: str) -> int:
        """0 Paramedic, 1 framework, 2 installed package or no file, 3 the user's."""
        rank = self._ranks.get(filename)
        if rank is None:
            rank = self._ranks[filename] = self._rank(filename)
        return rank

    def _rank(self, filename: str) -> int:
        if filename.startswith("<frozen"):
            return _FRAMEWORK
        path = filename if filename.startswith("<") else os.path.abspath(filename)
        if path.startswith(_PARAMEDIC):
            return _OURS
        if path.startswith(self._framework):
            return _FRAMEWORK
        return _INSTALLED if is_library(path) else _USER

    def is_user(self, code: CodeType) -> bool:
        """Whether the code stands in a file of the user's own."""
        return self.rank(code.co_filename) == _USER

    def frame(self, start: Optional[FrameType]) -> Optional[FrameType]:
        """The innermost user frame from `start` outwards; an installed package's where there is
        none."""
        second = None
        frame = start
        ranks = self._ranks
        for _ in _LEVELS:
            if frame is None:
                break
            filename = frame.f_code.co_filename
            rank = ranks.get(filename)
            if rank is None:
                rank = self.rank(filename)
            if rank == _USER:
                return frame
            if rank == _INSTALLED and second is None:
                second = frame
            frame = frame.f_back
        return second

    def construction(self, thing: Any, start: Optional[FrameType]) -> Optional[FrameType]:
        """The frame that constructs `thing`, given a frame inside its chain of `__init__`s."""
        frame = self.frame(start)
        for _ in range(MAX_FRAMES):
            if frame is None or not _initialises(frame, thing):
                return frame
            frame = self.frame(frame.f_back)
        return frame


def _initialises(frame: FrameType, thing: Any) -> bool:
    code = frame.f_code
    if code.co_name != "__init__" or not code.co_argcount:
        return False
    return frame.f_locals.get(code.co_varnames[0]) is thing


def place(frame: Optional[FrameType]) -> Tuple[str, int, str]:
    """(file, line, function) of a frame; ("", 0, "") of none."""
    if frame is None:
        return "", 0, ""
    code = frame.f_code
    return code.co_filename, frame.f_lineno, code.co_name


def where(spot: Tuple[str, int, str]) -> Dict[str, Any]:
    """A place as events tell it; the file absolute, so that it can be opened from anywhere."""
    filename, line, function = spot
    if filename and not filename.startswith("<"):
        filename = os.path.abspath(filename)
    return {"file": filename, "line": line, "function": function}


def names_of(thing: Any, frame: Optional[FrameType]) -> List[str]:
    """Variables of a frame (locals first, then globals) that are `thing`."""
    if frame is None:
        return []
    found = [name for name, value in frame.f_locals.items() if value is thing]
    if not found and frame.f_locals is not frame.f_globals:
        found = [name for name, value in frame.f_globals.items() if value is thing]
    return found
