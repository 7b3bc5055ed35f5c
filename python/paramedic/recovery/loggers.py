"""A broken logger goes silent: its functions and methods do nothing from then on.

What the job holds of the package (functions imported by name, bound methods, objects) stays in
place; the functions' code is replaced, or, where that cannot be, their entry in class or module.
All answer `Silent`, which takes whatever is done with it.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from types import FrameType, FunctionType, MethodType
from typing import Any, Iterator, Optional, Tuple

from paramedic.recovery.crash import Crash, Refused
from paramedic.recovery.memory import library_frames

MAX_NAMES = 5000


class Silent:
    """Takes every call, attribute, `with` and loop, and does nothing."""

    def __getattr__(self, name: str) -> "Silent":
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> "Silent":
        return self

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: Any) -> "Silent":
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        return None


def silence(crash: Crash, package: str) -> str:
    """Makes the package do nothing that the crashed statement had called.

    Args:
        crash: has frames of the package; the outermost is where the job called it.
        package: its name, such as "wandb"; inner packages (torch.utils.tensorboard) too.

    Returns:
        The full name of what is silent from now on.

    Raises:
        Refused: the crash has no frame of it.
    """
    frame = _entry(crash, package)
    if frame is None:
        raise Refused(f"no call of {package} is on the stack")
    parts = str(frame.f_globals.get("__name__", "")).split(".")
    root = ".".join(parts[: parts.index(package) + 1])
    modules = [
        module
        for name, module in list(sys.modules.items())
        if module is not None and (name == root or name.startswith(root + "."))
    ]
    called = frame.f_locals.get("self")
    members = _members(modules, root, type(called))
    for owner, name, value in list(itertools.islice(members, MAX_NAMES)):
        _silence(owner, name, value)
    return root


def _entry(crash: Crash, package: str) -> Optional[FrameType]:
    for frame in library_frames(crash):
        if package in str(frame.f_globals.get("__name__", "")).split("."):
            return frame
    return None


def _members(modules: Any, root: str, called: type) -> Iterator[Tuple[Any, str, Any]]:
    """Public functions of the package's modules, and public methods of the classes that they, or
    the object that was called, show."""
    classes = set()
    for module in modules:
        for name, value in list(vars(module).items()):
            if name.startswith("_"):
                continue
            if isinstance(value, type):
                classes.add(value)
            elif isinstance(value, (FunctionType, MethodType)):
                yield module, name, value
    for known in (*classes, *called.__mro__):
        own = str(known.__module__)
        # An exception stays one: the job may catch it by its class.
        if (own != root and not own.startswith(root + ".")) or issubclass(known, BaseException):
            continue
        for name, value in list(vars(known).items()):
            if isinstance(value, FunctionType) and not name.startswith("_"):
                yield known, name, value


def _silence(owner: Any, name: str, function: Any) -> None:
    try:
        # As many free variables as before, which are not used: the closure stays.
        free = function.__code__.co_freevars
        function.__code__ = _nothing.__code__.replace(co_freevars=free)
    except (AttributeError, ValueError):
        with contextlib.suppress(AttributeError, TypeError):
            setattr(owner, name, _nothing)


def _nothing(*args: Any, **kwargs: Any) -> Any:
    # Its code runs with the globals of another module.
    return __import__("paramedic.recovery.loggers", fromlist=["SILENT"]).SILENT


SILENT = Silent()
