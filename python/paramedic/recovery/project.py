"""Which files are the job's own: those under the script's folder or its repository's root.

Never the standard library, never site-packages, never a virtual environment that lies inside.
`PARAMEDIC_ALSO` names library packages that are to be treated as the job's own.
"""

from __future__ import annotations

import os
import sys
from typing import List, Optional, Tuple

from paramedic._library import is_library, is_package_folder

_ROOT_MARKS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
MAX_PARENTS = 40


class Project:
    """The job's folders."""

    def __init__(self, folder: str, also: Tuple[str, ...] = ()) -> None:
        folder = os.path.realpath(folder)
        self.roots: List[str] = [folder]
        root = _repository(folder)
        if root is not None and root != folder:
            self.roots.append(root)
        self.also = also

    def has_folder(self, path: str) -> bool:
        """Whether modules in the folder `path` may be the job's own."""
        path = os.path.realpath(path or os.curdir)
        if self.also and is_package_folder(path):
            return True
        return self._is_own(os.path.join(path, ""))

    def has_module(self, name: str, path: str) -> bool:
        """Whether the module `name` in the file `path` is the job's own."""
        for package in self.also:
            if name == package or name.startswith(package + "."):
                return True
        return self._is_own(os.path.realpath(path))

    def _is_own(self, path: str) -> bool:
        is_below = any(path.startswith(os.path.join(root, "")) for root in self.roots)
        return is_below and not is_library(path)


def _repository(folder: str) -> Optional[str]:
    """The nearest folder above that looks like a project's root; never the home or the top."""
    home = os.path.realpath(os.path.expanduser("~"))
    for _ in range(MAX_PARENTS):
        parent = os.path.dirname(folder)
        if folder in (home, parent):
            return None
        if any(os.path.exists(os.path.join(folder, mark)) for mark in _ROOT_MARKS):
            return folder
        folder = parent
    return None


def script_of_this_process() -> Optional[str]:
    """The script that the interpreter was told to run, as typed; None for -c, -m and stdin."""
    arguments = _arguments()
    while arguments:
        one = arguments.pop(0)
        if one in ("-", "--") or one.startswith(("-c", "-m", "-i")):
            return None
        if one in ("-W", "-X", "--check-hash-based-pycs"):
            arguments = arguments[1:]
        elif one.startswith("-") and not one.startswith("--"):
            # Letters may be joined: -um module, -Xdev, -Wignore.
            for at, letter in enumerate(one[1:], 1):
                if letter in "cmi":
                    return None
                if letter in "WX":
                    if at == len(one) - 1:
                        arguments = arguments[1:]
                    break
        elif not one.startswith("-"):
            return one
    return None


def module_of_this_process() -> Optional[str]:
    """The module given by `python -m`."""
    arguments = _arguments()
    for at, one in enumerate(arguments):
        if not one.startswith("-"):
            return None
        if one.startswith("-") and not one.startswith("--") and one.endswith("m"):
            following = arguments[at + 1 :]
            return following[0] if following else None
    return None


def is_spawned_worker() -> bool:
    """A child that multiprocessing started anew: it imports the parent's script by its path."""
    return "--multiprocessing-fork" in _arguments()


def _arguments() -> List[str]:
    return list(sys.orig_argv[1:])
