"""Transforms the job's own files when they are imported or run.

A path hook answers for the job's folders with the ordinary finder and a loader that transforms, and
for the path of the script itself, so that the interpreter hands us the script instead of reading it
(decision 0008). No other import meets any of this. Whatever goes wrong, the file runs untouched.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from types import CodeType
from typing import Any, Callable, Dict, Optional

from paramedic.recovery.project import (
    Project,
    is_spawned_worker,
    module_of_this_process,
    script_of_this_process,
)

MAX_BYTES = 4 << 20  # of a source file
_project: Optional[Project] = None
_overrides: Dict[str, bytes] = {}  # edited sources of files that are not imported yet


class ProjectLoader(SourceFileLoader):
    """Loads a file of the job, transformed."""

    def get_code(self, fullname: str) -> Optional[CodeType]:  # noqa: D102
        path = self.get_filename(fullname)
        if _project is None or not _project.has_module(fullname, path):
            return super().get_code(fullname)
        try:
            if path in _overrides or os.path.getsize(path) <= MAX_BYTES:
                data = _overrides.get(path) or self.get_data(path)
                made = transformed(path, data)
                if made is not None:
                    return made
        except SyntaxError:
            pass  # the ordinary way raises it as it should be
        except Exception as error:
            _note(path, error)
        return super().get_code(fullname)


class ScriptLoader(SourceFileLoader):
    """Loads the script."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: D102
        from paramedic.recovery import script

        script.claimed(self.path)
        data = self.get_data(self.path)
        try:
            made = transformed(self.path, data, main=True)
            if made is not None:
                return made
        except SyntaxError:
            pass
        except Exception as error:
            _note(self.path, error)
        return untouched(self.path, data)


class ScriptFinder:
    """The importer of the script's path: knows one module, `__main__`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find_spec(self, name: str, target: Any = None) -> Optional[ModuleSpec]:
        """The spec by which `runpy` runs the script."""
        if name != "__main__":
            return None
        spec = ModuleSpec(name, ScriptLoader(name, self.path), origin=self.path)
        spec.has_location = True
        return spec

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


def transformed(path: str, data: bytes, main: bool = False) -> Optional[CodeType]:
    """The code of a file with barriers; its functions can be continued from then on."""
    from paramedic.recovery import runtime as runtime_of
    from paramedic.recovery import source, transform

    data = _with_earlier_edits(path, data)
    # What a crash needs is loaded and read beforehand, so that it costs no time then.
    from paramedic.recovery import compilers, resume  # noqa: F401

    made = source.parse(path, data)
    runtime = runtime_of.Runtime(path, _kept(made))
    runtime.is_main = main
    for function, by in compilers.mark(made).items():
        runtime_of.left_alone(function, by)
    tree = transform.Transform(made).module(main)
    code = runtime_of.place(transform.compiled(tree, path, made.code.co_flags), runtime)
    runtime_of.add(runtime)
    return code


_kept_bytes = 0
MAX_KEPT_BYTES = 1 << 20  # of source whose trees stay in memory, which take some 40 times as much


def _kept(made: Any) -> Callable[[], Any]:
    """How the runtime gets at its source: kept, or of a large project read again at a crash."""
    global _kept_bytes
    from paramedic.recovery import source

    file, text = made.file, made.text
    if _kept_bytes + len(text) > MAX_KEPT_BYTES:
        return lambda: source.parse(file, text)
    _kept_bytes += len(text)
    return lambda: made


def _with_earlier_edits(path: str, data: bytes) -> bytes:
    """The file as a repair of this run has left it, where the job, or a rank, starts again."""
    if not os.path.isdir(os.path.join(os.environ.get("PARAMEDIC_RUN", ""), "repairs")):
        return data
    from paramedic.recovery import dialogue, edit

    for text in dialogue.earlier_edits():
        data = edit.applied_again(path, data, text)
    return data


def untouched(path: str, data: bytes) -> CodeType:
    """The script's own code, which nothing can continue, but which looks as run directly."""
    from paramedic.recovery import runtime as runtime_of
    from paramedic.recovery import script, transform

    try:
        code = compile(data, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        script.trim_what_is_shown()
        raise
    runtime = runtime_of.Runtime(path, lambda: runtime_of.missing(path))
    tree = transform.only_shown_right(data, path)
    return runtime_of.place(transform.compiled(tree, path, code.co_flags), runtime)


def override(path: str, data: bytes) -> None:
    """An edit of a file that is not imported yet."""
    _overrides[path] = data


def project() -> Optional[Project]:
    """The folders whose files are transformed."""
    return _project


def _note(path: str, error: BaseException) -> None:
    from paramedic.recovery import runtime

    runtime.note(os.path.basename(path), error)


def _hook(path: str) -> Any:
    """The path hook: see the module's text."""
    if _project is None:
        raise ImportError("not the job's own")
    if os.path.isfile(path):
        if _is_script(path):
            return ScriptFinder(path)
        raise ImportError("not the script")
    if not os.path.isdir(path or os.curdir) or not _project.has_folder(path):
        raise ImportError("not the job's own")
    return FileFinder(
        path,
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (ProjectLoader, [".py"]),
        (SourcelessFileLoader, [".pyc"]),
    )


def _is_script(path: str) -> bool:
    if not path.endswith(".py") and not _looks_like_text(path):
        return False
    typed = script_of_this_process()
    if typed is not None:
        return os.path.abspath(typed) == os.path.abspath(path)
    return is_spawned_worker() and path.endswith(".py")


def _looks_like_text(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError:
        return False
    return not head.startswith(b"PK") and b"\0" not in head and head[2:4] != b"\r\n"


def install(environ: Any = os.environ) -> None:
    """Begins to transform what this process imports from the job's folders."""
    global _project
    if _project is not None:
        return
    if sys.version_info < (3, 11):
        from paramedic.recovery import runtime

        version = ".".join(str(part) for part in sys.version_info[:2])
        runtime.note("crashes", RuntimeError(f"Python {version} is older than 3.11"))
        return
    also = tuple(one for one in environ.get("PARAMEDIC_ALSO", "").split(",") if one)
    _project = Project(_folder(), also)
    # For children whose command line does not say which script they belong to.
    environ.setdefault("PARAMEDIC_SCRIPT_FOLDER", _project.roots[0])
    sys.path_hooks.insert(0, _hook)
    for known in list(sys.path_importer_cache):
        if os.path.isdir(known or os.curdir) and _project.has_folder(known):
            del sys.path_importer_cache[known]


def _folder() -> str:
    script = script_of_this_process()
    if script is not None and os.path.exists(script):
        return os.path.dirname(os.path.realpath(script))
    module = module_of_this_process()
    if module is None and is_spawned_worker():
        return os.environ.get("PARAMEDIC_SCRIPT_FOLDER") or os.getcwd()
    return os.getcwd()
