"""From the code that autograph makes of the job's functions back to the job's own lines."""

import functools
import sys
from typing import Any, Dict, Tuple

from paramedic.adapters.common.session import Tap

MAX_FILES = 1000  # generated ones that are remembered


class Origins:
    """Keeps the maps that autograph makes anyway, by the name of the generated file."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self._maps: Dict[str, Any] = {}

    def watch(self) -> None:
        """Follows code being generated."""
        loader: Any = sys.modules["tensorflow.python.autograph.pyct.loader"]
        genuine = loader.load_ast

        @functools.wraps(genuine)
        def load_ast(*args: Any, **kwargs: Any) -> Any:
            result = genuine(*args, **kwargs)
            try:
                module, _, lines = result
                file = module.__file__
                if lines and len(self._maps) < MAX_FILES:
                    self._maps[file] = {
                        made.lineno: origin
                        for made, origin in lines.items()
                        if made.filename == file
                    }
            except Exception as error:
                self._tap.fail(error)
            return result

        loader.load_ast = load_ast

    def of(self, frame: Any) -> Tuple[str, int, str]:
        """(file, line, function) of a frame, where the job's own code has it."""
        code = frame.f_code
        origin = self._maps.get(code.co_filename, {}).get(frame.f_lineno)
        if origin is None:
            return code.co_filename, frame.f_lineno, code.co_name
        return origin.loc.filename, origin.loc.lineno, code.co_name.rpartition("tf__")[2]
