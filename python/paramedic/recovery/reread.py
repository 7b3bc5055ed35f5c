"""The next version of a file, of which a person has changed a few lines.

The compiler runs over the functions and classes of the module that differ, and over no others: the
code of those is what it was, some lines further up or down.
"""

from __future__ import annotations

import ast
import types
from typing import Any, List, NamedTuple, Optional, Tuple

from paramedic.recovery import source as source_of
from paramedic.recovery.source import FUNCTIONS, Source, begin_of

_FACT = "changed_lines"


class Lines(NamedTuple):
    """First and last line, 1-based, of what differs in the version before and in this one."""

    old: Tuple[int, int]
    new: Tuple[int, int]


def parse(before: Source, text: bytes) -> Source:
    """Like `source.parse` of the file of `before`; raises what the compiler raises on it."""
    tree = ast.parse(text, before.file)
    found = _changed(before, tree, text.splitlines())
    if found is None:
        return source_of.parse(before.file, text)
    first, last, lines = found
    code = _code(before, tree.body[first:last], lines)
    made = source_of.of_tree(before.file, text, tree, code)
    made.facts[_FACT] = lines
    return made


def changed_lines(after: Source) -> Optional[Lines]:
    """Outside of these lines nothing differs from the version before; None: anything may."""
    found: Optional[Lines] = after.facts.get(_FACT)
    return found


def _changed(
    before: Source, tree: ast.Module, now: List[bytes]
) -> Optional[Tuple[int, int, Lines]]:
    """The statements of the module that are new, as a range; None if they are no definitions."""
    old = before.lines
    top = _common(old, now)
    bottom = _common(old[: top - 1 if top else None : -1], now[: top - 1 if top else None : -1])
    first = _until(tree.body, top)
    if first != _until(before.tree.body, top):
        return None
    last = _since(tree.body, len(now) - bottom)
    old_last = _since(before.tree.body, len(old) - bottom)
    if len(tree.body) - last != len(before.tree.body) - old_last or first >= min(last, old_last):
        return None
    statements = [*before.tree.body[first:old_last], *tree.body[first:last]]
    if not all(isinstance(one, (*FUNCTIONS, ast.ClassDef)) for one in statements):
        return None
    lines = Lines(_span(before.tree.body[first:old_last]), _span(tree.body[first:last]))
    return first, last, lines


def _span(stmts: List[ast.stmt]) -> Tuple[int, int]:
    return begin_of(stmts[0])[0], stmts[-1].end_lineno or 0


def _common(first: List[bytes], second: List[bytes]) -> int:
    """How many lines both begin with."""
    length = min(len(first), len(second))
    return next((at for at in range(length) if first[at] != second[at]), length)


def _until(body: List[ast.stmt], line: int) -> int:
    """How many statements end on `line` or before it."""
    return next((at for at, one in enumerate(body) if (one.end_lineno or 0) > line), len(body))


def _since(body: List[ast.stmt], line: int) -> int:
    """The first statement that begins after `line`."""
    return next((at for at, one in enumerate(body) if begin_of(one)[0] > line), len(body))


def _code(before: Source, fresh: List[ast.stmt], lines: Lines) -> types.CodeType:
    """Code of the module for its functions' sake: it holds theirs, and is never run."""
    flags = source_of.future_flags(before.code.co_flags)
    module: Any = ast.Module(fresh, [])
    made = compile(module, before.file, "exec", flags, dont_inherit=True)
    shift = lines.new[1] - lines.old[1]
    consts: List[Any] = [one for one in made.co_consts if isinstance(one, types.CodeType)]
    for one in before.code.co_consts:
        if not isinstance(one, types.CodeType):
            continue
        if one.co_firstlineno < lines.old[0]:
            consts.append(one)
        elif one.co_firstlineno > lines.old[1]:
            consts.append(_moved(one, shift) if shift else one)
    return before.code.replace(co_consts=tuple(consts))


def _moved(code: types.CodeType, lines: int) -> types.CodeType:
    consts = [
        _moved(one, lines) if isinstance(one, types.CodeType) else one for one in code.co_consts
    ]
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_consts=tuple(consts))
