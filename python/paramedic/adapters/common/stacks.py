"""The stack of another thread, as it stands at this moment, and what it says of the phase.

Holding a frame of a running thread is safe under the GIL; nothing is kept of it.
"""

import os
from types import FrameType
from typing import Any, Dict, List, Optional, Tuple

from paramedic.adapters.common.source import Source

MAX_LOOKED_AT = 300
MAX_FRAMES = 12
MAX_LIBRARY = 3  # innermost frames of libraries

_FRAMEWORK, _INSTALLED, _USER = 1, 2, 3

# (part of a file's path, phase)
Places = Tuple[Tuple[str, str], ...]


def stack_of(frame: Optional[FrameType], source: Source) -> List[Dict[str, Any]]:
    """The user's frames and the innermost ones of libraries, innermost first."""
    found: List[Dict[str, Any]] = []
    libraries = 0
    for _ in range(MAX_LOOKED_AT):
        if frame is None or len(found) >= MAX_FRAMES:
            break
        rank = source.rank(frame.f_code.co_filename)
        is_library = rank in (_FRAMEWORK, _INSTALLED)
        if rank == _USER or (is_library and libraries < MAX_LIBRARY):
            libraries += is_library
            code = frame.f_code
            name = code.co_filename
            file = name if name.startswith("<") else os.path.abspath(name)
            found.append({"file": file, "line": frame.f_lineno, "function": code.co_name})
        frame = frame.f_back
    return found


def phase_of(frame: Optional[FrameType], places: Places) -> Optional[str]:
    """The phase of the innermost frame that is at one of `places`; None when none is."""
    for _ in range(MAX_LOOKED_AT):
        if frame is None:
            return None
        file = frame.f_code.co_filename
        for place, phase in places:
            if place in file:
                return phase
        frame = frame.f_back
    return None
