"""Whose a file is: what belongs to the interpreter, to an installed package or to Paramedic is no
line that the user of a job can change."""

import os
import sys
import sysconfig
from typing import Tuple

_PACKAGES = ("site-packages", "dist-packages")


def is_package_folder(path: str) -> bool:
    """Whether `path` lies in a folder of installed packages, of whichever interpreter."""
    return any(part in path.replace("\\", "/").split("/") for part in _PACKAGES)


def is_library(path: str) -> bool:
    """Whether the file at `path` (as a code object has it) is not the job's own: Paramedic's, an
    installed package's, the standard library's, or in this interpreter's environment."""
    if path.startswith("<frozen"):
        return True
    return path.startswith(_FOLDERS) or is_package_folder(path)


def _folders() -> Tuple[str, ...]:
    paths = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [paths[name] for name in names if name in paths]
    folders += [os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__))]
    if sys.prefix != sys.base_prefix:
        folders.append(sys.prefix)
    folders += [os.path.realpath(folder) for folder in folders]
    return tuple({os.path.join(folder, "") for folder in folders})


_FOLDERS = _folders()
