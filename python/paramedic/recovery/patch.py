"""Applies a unified diff to texts in memory, as a person's or a tool's patch needs it.

Line numbers are hints: a hunk goes where its lines stand, nearest to where it says, and up to two
outer lines of its context may differ.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

from paramedic.recovery.crash import Refused

MAX_BYTES = 1 << 20
MAX_FUZZ = 2
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass
class Hunk:
    """Consecutive lines: (mark, text) with mark one of space, - and +; no line ends."""

    start: int  # 1-based, in the old file
    lines: List[Tuple[str, str]] = field(default_factory=list)


@dataclass
class FilePatch:
    """What a patch does to one file."""

    name: str  # as in the patch
    hunks: List[Hunk] = field(default_factory=list)


def parse(text: str) -> List[FilePatch]:
    """Reads a unified diff; Refused where it is none."""
    if len(text) > MAX_BYTES:
        raise Refused(f"the patch has {len(text)} characters, more than {MAX_BYTES}")
    files: List[FilePatch] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            files.append(FilePatch(_name(line, lines[at + 1])))
            at += 2
        elif line.startswith("@@"):
            if not files:
                raise Refused("the patch names no file before its first hunk")
            at = _read_hunk(lines, at, files[-1])
        else:
            at += 1
    files = [one for one in files if one.hunks]
    if not files:
        raise Refused("the patch is no unified diff: it has no hunk")
    return files


def _name(old: str, new: str) -> str:
    names = [re.split(r"\t| {2,}", line[4:].strip())[0] for line in (old, new)]
    if names[1] == "/dev/null":
        raise Refused(f"the patch would delete {names[0]}")
    if names[0] == "/dev/null":
        raise Refused(f"the patch would create {names[1]}; only loaded files can be edited")
    return names[1]


def _read_hunk(lines: List[str], at: int, file: FilePatch) -> int:
    found = _HUNK.match(lines[at])
    if found is None:
        raise Refused(f"line {at + 1} of the patch is no hunk header: {lines[at][:80]}")
    hunk = Hunk(int(found.group(1)))
    olds = int(found.group(2) or "1")
    news = int(found.group(4) or "1")
    at += 1
    while at < len(lines) and (olds > 0 or news > 0):
        line = lines[at]
        mark = line[:1] or " "  # editors strip the blank of an empty context line
        if mark == "\\":
            at += 1
            continue
        if mark not in " +-":
            raise Refused(f"line {at + 1} of the patch begins with {mark!r}")
        olds -= mark in " -"
        news -= mark in " +"
        hunk.lines.append((mark, line[1:]))
        at += 1
    if olds > 0 or news > 0:
        raise Refused("the patch ends in the middle of a hunk")
    file.hunks.append(hunk)
    return at


def apply(text: str, file: FilePatch) -> str:
    """The text with all hunks applied; Refused, and nothing done, where one fits nowhere."""
    lines = text.splitlines(keepends=True)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    shift = 0
    done = 0  # lines before this belong to hunks applied already
    for number, hunk in enumerate(file.hunks, 1):
        placed = _place(lines, hunk, hunk.start - 1 + shift, done)
        if placed is None:
            if _is_applied(lines, hunk):
                continue
            raise Refused(_why_not(file, hunk, number, lines))
        at, marks = placed
        made: List[str] = []
        cursor = at
        for mark, line in marks:
            if mark == "+":
                made.append(line + end)
                continue
            if mark == " ":
                made.append(lines[cursor])
            cursor += 1
        lines[at:cursor] = made
        shift += len(made) - (cursor - at)
        done = at + len(made)
    return "".join(lines)


def _place(
    lines: List[str], hunk: Hunk, expected: int, done: int
) -> Optional[Tuple[int, List[Tuple[str, str]]]]:
    """(index of the first line, the hunk's lines as far as they are used)."""
    bare = [line.rstrip("\r\n").rstrip() for line in lines]
    for fuzz in range(MAX_FUZZ + 1):
        marks, cut = _without_context(hunk.lines, fuzz)
        if fuzz and marks is None:
            break
        assert marks is not None
        olds = [line.rstrip() for mark, line in marks if mark != "+"]
        if not olds and fuzz:
            break
        for at in _nearest(expected + cut, done, len(bare) - len(olds)):
            if bare[at : at + len(olds)] == olds:
                return at, marks
    return None


def _without_context(
    lines: List[Tuple[str, str]], fuzz: int
) -> Tuple[Optional[List[Tuple[str, str]]], int]:
    """Drops up to `fuzz` context lines at each end: (lines, how many at the start)."""
    start, end = 0, len(lines)
    while start < fuzz and start < end and lines[start][0] == " ":
        start += 1
    while len(lines) - end < fuzz and end > start and lines[end - 1][0] == " ":
        end -= 1
    if fuzz and start < fuzz and len(lines) - end < fuzz:
        return None, 0
    return lines[start:end], start


def _nearest(expected: int, low: int, high: int) -> List[int]:
    return sorted(range(low, high + 1), key=lambda at: (abs(at - expected), at))


def _is_applied(lines: List[str], hunk: Hunk) -> bool:
    """An earlier patch has made the same change."""
    news = [line.rstrip() for mark, line in hunk.lines if mark != "-"]
    bare = [line.rstrip("\r\n").rstrip() for line in lines]
    changes = any(mark == "+" for mark, _ in hunk.lines)
    return changes and any(
        bare[at : at + len(news)] == news for at in range(len(bare) - len(news) + 1)
    )


def _why_not(file: FilePatch, hunk: Hunk, number: int, lines: List[str]) -> str:
    bare = {line.strip() for line in lines}
    for mark, line in hunk.lines:
        if mark != "+" and line.strip() and line.strip() not in bare:
            return (
                f"hunk {number} of {os.path.basename(file.name)} does not apply: the file has no "
                f"line {line.strip()[:80]!r}"
            )
    return f"hunk {number} of {os.path.basename(file.name)} does not apply near line {hunk.start}"
