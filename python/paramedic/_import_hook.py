"""Attaches an adapter right after its framework was first imported.

A finder in front of `sys.meta_path` looks for the names of `adapters.FRAMEWORKS` only. It lets the
other finders find the module, and makes the loader of that one module run the adapter after the
module's code. The loader and the spec stay the genuine ones: nothing of ours is left in them.

Imported at the start of every interpreter of a run: no import here but `sys` (`typing` alone would
cost more than all of this).
"""

from __future__ import annotations

import sys

from paramedic import adapters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class FrameworkFinder:
    """A meta path finder for the frameworks that have an adapter."""

    def __init__(self) -> None:
        self._searching: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Answers None for every name but a framework's, so other imports cost one look-up."""
        if name not in adapters.FRAMEWORKS or name in self._searching:
            return None
        self._searching.append(name)
        try:
            spec = _find_with_others(self, name, path, target)
        finally:
            self._searching.remove(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _attach_after_exec(name, spec.loader)
        return spec


def _find_with_others(own: FrameworkFinder, name: str, path: Any, target: Any) -> Any:
    for finder in list(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None)
        if finder is own or find_spec is None:
            continue
        spec = find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def _attach_after_exec(name: str, loader: Any) -> None:
    """Shadows `loader.exec_module` for one call; the instance is this module's alone."""
    genuine = loader.exec_module

    def exec_module(module: Any) -> None:
        loader.__dict__.pop("exec_module", None)
        genuine(module)
        attach(name, module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        # A loader without a __dict__: nothing can be hung on it, the framework stays unwatched.
        return


def attach(name: str, module: Any) -> None:
    """Attaches the adapter of framework `name`; an error leaves the framework as it was."""
    try:
        adapter = adapters.FRAMEWORKS[name]
        __import__(adapter)
        sys.modules[adapter].attach(module)
    except Exception as error:
        adapters.note_failure(name, error)


def install() -> None:
    """Installs the finder, once; attaches at once to what is imported already."""
    if any(isinstance(finder, FrameworkFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, FrameworkFinder())
    for name in adapters.FRAMEWORKS:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        if module is not None and not getattr(spec, "_initializing", False):
            attach(name, module)
