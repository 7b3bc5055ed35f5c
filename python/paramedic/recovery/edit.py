"""Edits of the job's source while it runs: checked as a whole, then put into effect at once.

An edit makes a new version of each file it touches. Live functions get the new code, whoever holds
them; new functions, imports and constants are defined; the crashed frame goes on in the new
version. Nothing is written to the user's files.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from paramedic.recovery import attributes, compilers, live, loader, patch, reread
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery import source as source_of
from paramedic.recovery.crash import Refused
from paramedic.recovery.runtime import Runtime
from paramedic.recovery.source import FUNCTIONS, Function, Source
from paramedic.recovery.stack import Standing


@dataclass
class FileEdit:
    """The next version of one file."""

    before: Runtime
    after: Runtime
    changed: List[Function] = field(default_factory=list)  # of the new version, own text changed
    added: List[Function] = field(default_factory=list)

    def is_changed(self, qualname: str) -> bool:
        """Whether the function's own text differs."""
        return any(one.qualname == qualname for one in self.changed)


@dataclass
class Edit:
    """A patch that can be put into effect."""

    files: List[FileEdit]
    unloaded: Dict[str, bytes] = field(default_factory=dict)  # files that nobody has imported
    given: List[attributes.Given] = field(default_factory=list)  # to objects that exist already

    def runtime_of(self, file: str) -> Runtime:
        """The version of `file` that counts with this edit."""
        for one in self.files:
            if one.after.file == file:
                return one.after
        found = runtime_of.newest(file)
        if found is None:
            raise Refused(f"{file} is not among the job's transformed files")
        return found

    def frame_to_go_on(self, standings: List[Standing]) -> Standing:
        """The crashed frame, or the innermost of its callers if only callers are edited."""
        if self._touches(standings[-1]):
            return standings[-1]
        for standing in reversed(standings[:-1]):
            if self._touches(standing):
                return standing
        return standings[-1]

    def _touches(self, standing: Standing) -> bool:
        for one in self.files:
            if one.after.file != standing.runtime.file:
                continue
            if standing.function.kind == "module":
                return _module_changed(one, standing)
            return one.is_changed(standing.function.qualname)
        return False

    def names(self) -> Set[str]:
        """Of the functions whose text it changes."""
        return {function.name for one in self.files for function in one.changed}

    def changes_only(self, standing: Standing) -> bool:
        """Whether nothing is edited but the function in which `standing` stands."""
        if self.unloaded or len(self.files) != 1 or standing.function.kind == "module":
            return False
        one = self.files[0]
        changed = [function.qualname for function in one.changed]
        is_own = one.after.file == standing.runtime.file
        return (
            is_own and changed == [standing.function.qualname] and not (one.added or top_level(one))
        )

    def install(self) -> None:
        """Puts the edit into effect."""
        for file, data in self.unloaded.items():
            loader.override(file, data)
        for one in self.files:
            one.after.is_main = one.before.is_main
            runtime_of.add(one.after)
            live.define(one)
            live.swap(one)
        attributes.give(self.given)


def prepare(text: str, crashed: str) -> Edit:
    """Reads and checks a patch; Refused, with nothing changed, where it cannot be applied.

    Args:
        text: a unified diff.
        crashed: the file of the crashed frame, which decides where names are ambiguous.
    """
    made = Edit([])
    for one in patch.parse(text):
        file = _locate(one.name, crashed)
        before = runtime_of.newest(file)
        data = before.source.text if before is not None else _read(file)
        edited = _applied(data, one)
        if edited == data:
            raise Refused(f"the patch changes nothing in {os.path.basename(file)}")
        after = _parsed(file, edited, before)
        if before is None:
            made.unloaded[file] = edited
            continue
        runtime = Runtime(file, lambda after=after: after)  # type: ignore[misc]
        found = FileEdit(before, runtime)
        _compare(found)
        _check_names(found)
        made.files.append(found)
    return made


def applied_again(file: str, data: bytes, text: str) -> bytes:
    """An edit that was accepted once, in the file as it is read now; what does not fit is left."""
    try:
        for one in patch.parse(text):
            names = [one.name, one.name[2:] if one.name.startswith(("a/", "b/")) else one.name]
            if any(same_file(file, name) for name in names):
                data = _applied(data, one)
    except Refused:
        pass
    return data


def same_file(file: str, name: str) -> bool:
    """Whether `name`, of a patch or a person, means `file`."""
    name = name.replace("\\", "/")
    if os.path.isabs(name):
        return os.path.realpath(name) == os.path.realpath(file)
    file = os.path.realpath(file).replace("\\", "/")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return bool(parts) and file.endswith("/" + "/".join(parts))


def _locate(name: str, crashed: str) -> str:
    names = [name]
    if name.startswith(("a/", "b/")):
        names.append(name[2:])
    for one in names:
        found = [file for file in runtime_of.files() if same_file(file, one)]
        if len(found) > 1 and crashed in found:
            return crashed
        if found:
            return min(found, key=len)
    project = loader.project()
    for one in reversed(names):
        for root in project.roots if project is not None else []:
            path = os.path.realpath(os.path.join(root, one))
            if os.path.isfile(path):
                if project is not None and path.startswith(os.path.join(root, "")):
                    return path
                raise Refused(f"{one} is outside of the job's project")
    if any(os.path.isfile(one) for one in names):
        raise Refused(f"{names[-1]} is outside of the job's project")
    raise Refused(f"the job has no file {names[-1]}")


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            return stream.read(loader.MAX_BYTES)
    except OSError as error:
        raise Refused(f"{file} cannot be read: {error.strerror}") from None


def _applied(data: bytes, one: patch.FilePatch) -> bytes:
    import io
    import tokenize

    encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    text = data.decode(encoding)
    return patch.apply(text, one).encode("utf-8" if encoding == "utf-8-sig" else encoding)


def _parsed(file: str, data: bytes, before: Optional[Runtime]) -> Source:
    try:
        made = reread.parse(before.source, data) if before else source_of.parse(file, data)
        compilers.mark(made)
        return made
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        what = getattr(error, "msg", None) or str(error)
        raise Refused(f"with the patch {os.path.basename(file)}{where} has: {what}") from None


# ---------------------------------------------------------------------- what is changed


def _compare(one: FileEdit) -> None:
    before, after = one.before.source, one.after.source
    lines = reread.changed_lines(after)
    texts: Dict[str, List[bytes]] = {}
    for function in _within(before, lines and lines.old):
        texts.setdefault(function.qualname, []).append(source_of.own_text(before, function))
    seen: Dict[str, int] = {}
    for function in _within(after, lines and lines.new):
        at = seen.get(function.qualname, 0)
        seen[function.qualname] = at + 1
        known = texts.get(function.qualname, [])
        if at >= len(known):
            one.added.append(function)
        elif known[at] != source_of.own_text(after, function):
            one.changed.append(function)


def _within(source: Source, lines: Optional[Tuple[int, int]]) -> Iterator[Function]:
    for function in source.functions[1:]:
        if lines is None or lines[0] <= source_of.begin_of(function.node)[0] <= lines[1]:
            yield function


def top_level(one: FileEdit) -> List[ast.stmt]:
    """The statements of the module itself that are new or changed, in their order."""
    before = one.before.source
    known = {before.text_of(node) for node in before.tree.body}
    return [
        node
        for node in one.after.source.tree.body
        if not isinstance(node, FUNCTIONS) and one.after.source.text_of(node) not in known
    ]


def is_definition(node: ast.stmt) -> bool:
    """What can be executed by itself, before the frame goes on."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        calls = any(isinstance(part, (ast.Call, ast.Await)) for part in ast.walk(node))
        return not calls and all(isinstance(target, ast.Name) for target in targets)
    return False


def _module_changed(one: FileEdit, standing: Standing) -> bool:
    """Whether the module's own statements differ in more than definitions."""
    return any(not is_definition(node) for node in top_level(one))


# ---------------------------------------------------------------------- names


def _check_names(one: FileEdit) -> None:
    """Refuses names that a changed function would look up in vain and did not before."""
    scope = live.globals_of(one.before)
    if scope is None:
        return
    builtins: Any = scope.get("__builtins__", {})
    builtin_names = builtins if isinstance(builtins, dict) else vars(builtins)
    defined: Optional[Set[str]] = None
    for function in [*one.changed, *one.added]:
        unknown = [
            name
            for name in live.all_names(function.code)
            if name not in scope and name not in builtin_names
        ]
        if not unknown:
            continue
        if defined is None:
            # What the file has asked for in vain before is no fault of the edit.
            defined = _defined(one.after.source)
            for old in one.before.source.functions:
                defined |= live.all_names(old.code)
        new = set(unknown) - defined
        for name in sorted(new & live.global_names(function.code)) if new else ():
            raise Refused(f"{function.qualname} would use {name}, which is not defined")


def _defined(source: Source) -> Set[str]:
    """The names that the file's body and its `global` statements can bind."""
    found: Set[str] = set()
    for node in source_of.own_nodes(source.tree.body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    for function in source.functions[1:]:
        for inner in source_of.own_statements(function.body):
            if isinstance(inner, ast.Global):
                found.update(inner.names)
    return found
