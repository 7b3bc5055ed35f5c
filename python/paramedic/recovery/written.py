"""What a failed statement has written into a file before it failed: taken back before a retry.

`json.dump(record, file)` writes as it goes. Run again it would leave the first half before the
whole. How much that was says a copy of the process (sandbox.py), which runs the statement with a
file in memory; nothing is taken back unless the end of the real file is exactly that.
"""

from __future__ import annotations

import ast
import io
import os
import zlib
from dataclasses import dataclass
from typing import Any, Iterator, Optional

from paramedic.recovery import names, sandbox
from paramedic.recovery.source import own_nodes
from paramedic.recovery.stack import Standing

MAX_BYTES = 64 << 20
_STATEMENTS = (ast.Expr, ast.Assign)


@dataclass
class Half:
    """A file, and where in it the failed statement began to write."""

    file: Any
    began: int
    end: int

    def take_back(self) -> None:
        """Cuts off what the statement has written; not where somebody has written more since."""
        try:
            self.file.flush()
            if os.fstat(self.file.fileno()).st_size == self.end:
                self.file.seek(self.began)
                self.file.truncate()
        except (OSError, ValueError):
            return


def half_done(standing: Standing) -> Optional[Half]:
    """What the statement at which the frame stands has written; None where that is not known."""
    statement = standing.path[-1].statement
    if not isinstance(statement, _STATEMENTS):
        return None
    given = sorted({*_given(statement)})
    if not given:
        return None
    values = names.scope_of(standing)
    files = {name: values[name] for name in given if _can_be_cut(values.get(name))}
    if len(files) != 1:
        return None
    name, file = files.popitem()
    try:
        file.flush()
        answer = sandbox.run(lambda: _written(standing, statement, name, file))
        return _checked(file, answer.text or "")
    except (OSError, ValueError):
        return None


def _given(statement: ast.stmt) -> Iterator[str]:
    """The names that calls in the statement are given."""
    for node in own_nodes([statement]):
        if not isinstance(node, ast.Call):
            continue
        for one in [*node.args, *(keyword.value for keyword in node.keywords)]:
            if isinstance(one, ast.Name):
                yield one.id


def _can_be_cut(value: Any) -> bool:
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    return type(value) in kinds and not value.closed and value.writable() and value.seekable()


def _written(standing: Standing, statement: ast.stmt, name: str, file: Any) -> str:
    """In the copy: "length checksum" of what the statement writes until it raises."""
    is_text = isinstance(file, io.TextIOWrapper)
    memory: Any = io.StringIO(newline="") if is_text else io.BytesIO()
    scope = {**names.scope_of(standing), name: memory}
    try:
        names.run_statements([statement], standing.runtime.file, scope)
    except Exception:
        data = memory.getvalue()
        if is_text:
            data = data.encode(file.encoding, file.errors or "strict")
        return f"{len(data)} {zlib.crc32(data)}"
    return ""  # it would not fail again: how far it came is not known


def _checked(file: Any, answer: str) -> Optional[Half]:
    """Where the file's end is what the copy has written: that much of it."""
    if not answer:
        return None
    length, checksum = (int(part) for part in answer.split())
    number = file.fileno()
    end = os.lseek(number, 0, os.SEEK_CUR)
    if not 0 < length <= min(end, MAX_BYTES) or os.fstat(number).st_size != end:
        return None
    with open(f"/proc/self/fd/{number}", "rb") as again:
        again.seek(end - length)
        if zlib.crc32(again.read(length)) != checksum:
            return None
    return Half(file, end - length, end)
