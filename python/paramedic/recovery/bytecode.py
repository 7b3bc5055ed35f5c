"""Reads what the interpreter will do with an exception out of a code object.

The exception table says where a raising instruction goes on; the instructions there say which types
are caught and whether the handler can end other than by raising. Works without source, so also for
libraries and frozen modules, and costs microseconds. CPython 3.11 to 3.13.
"""

from __future__ import annotations

import bisect
import opcode
import types
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

_NAMES = opcode.opname
_CACHE = 0
_EXTENDED_ARG = opcode.EXTENDED_ARG
_SINCE_3_12 = "RETURN_CONST" in opcode.opmap
MAX_CODES = 4096  # how many are remembered
MAX_STEPS = 2000  # instructions followed inside one handler


class Instruction(NamedTuple):
    """One instruction; `after` is the offset of the one behind it, its caches passed over."""

    offset: int
    name: str
    argument: int
    after: int


class Entry(NamedTuple):
    """A range of the exception table, in bytes."""

    start: int
    end: int
    target: int


class Clause(NamedTuple):
    """One `except` of a handler."""

    catches: Any  # an expression tree for `evaluate`; None catches all
    # swallows, raises (the same again), translates (into another exception); depends: one of them
    outcome: str
    offset: int  # of its first instruction


class Handler(NamedTuple):
    """What stands at the target of a range."""

    kind: str  # clauses, with, passes
    clauses: Tuple[Clause, ...]


class Reader:
    """A code object, read once."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.instructions = _decode(code.co_code)
        self.index = {one.offset: i for i, one in enumerate(self.instructions)}
        self._offsets = [one.offset for one in self.instructions]
        self.entries = _table(code.co_exceptiontable)
        self._handlers: Dict[int, Handler] = {}

    def entry(self, offset: int) -> Optional[Entry]:
        """The range that an exception at `offset` meets first."""
        for one in self.entries:
            if one.start <= offset < one.end:
                return one
        return None

    def operation(self, offset: int) -> str:
        """The name of the instruction at `offset`."""
        at = bisect.bisect_right(self._offsets, offset) - 1
        name = "" if at < 0 else self.instructions[at].name
        # Python 3.11 calls builtin functions from there once the code is warm.
        return "CALL" if name == "PRECALL" else name

    def handler(self, target: int) -> Handler:
        """What happens to an exception at `target`."""
        found = self._handlers.get(target)
        if found is None:
            found = self._handlers[target] = self._read_handler(target)
        return found

    def before_with(self, target: int) -> List[Instruction]:
        """The instructions up to the entry of the `with` whose handler stands at `target`."""
        start = min(one.start for one in self.entries if one.target == target)
        at = self.index.get(start, 0)
        while at > 0 and not self.instructions[at].name.startswith("BEFORE_"):
            at -= 1
        return self.instructions[:at]

    def _read_handler(self, target: int) -> Handler:
        at = self.index.get(target)
        if at is None or self.instructions[at].name != "PUSH_EXC_INFO":
            return Handler("passes", ())  # the clean-up of a handler
        at += 1
        if self.instructions[at].name == "WITH_EXCEPT_START":
            return Handler("with", ())
        clauses: List[Clause] = []
        for _ in range(100):
            catches, match = self._expression(at)
            if match is None:
                offset = self.instructions[at].offset
                clauses.append(Clause(None, self._outcome(offset), offset))
                break
            jump, offset = self.instructions[match + 1], self.instructions[at].offset
            if self.instructions[match].name == "CHECK_EG_MATCH":
                clauses.append(Clause(catches, "swallows", offset))
                break
            clauses.append(Clause(catches, self._outcome(jump.after), offset))
            following = self.index.get(_jump_target(jump))
            if following is None:
                break
            at = following
            if self.instructions[at].name == "RERAISE":
                break
        return Handler("clauses", tuple(clauses))

    def _expression(self, at: int) -> Tuple[Any, Optional[int]]:
        """(what a clause catches, index of its match instruction or None where it has none)."""
        stack: List[Any] = []
        known = True
        for i in range(at, min(at + 60, len(self.instructions))):
            one = self.instructions[i]
            if one.name in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
                return (stack[-1] if known and stack else UNKNOWN), i
            if one.name in ("COPY", "NOP", "PUSH_NULL", "SWAP"):
                continue
            if _ends_expression(one.name):
                return None, None
            known = _push(stack, self.code, one) and known
        return None, None

    def _outcome(self, offset: int) -> str:
        """How a handler that starts at `offset` can end."""
        seen: Set[int] = set()
        todo = [self.index.get(offset)]
        found: Set[str] = set()
        while todo and len(seen) < MAX_STEPS:
            at = todo.pop()
            if at is None or at in seen or at >= len(self.instructions):
                continue
            seen.add(at)
            one = self.instructions[at]
            if one.name == "POP_EXCEPT":
                following = self.instructions[at + 1].name
                found.add("raises" if following == "RERAISE" else "swallows")
            elif one.name == "RERAISE":
                found.add("raises")
            elif one.name == "RAISE_VARARGS":
                found.add("translates" if one.argument else "raises")
            elif one.name.startswith("RETURN_") and one.name != "RETURN_GENERATOR":
                found.add("swallows")
            else:
                if not one.name.startswith(("JUMP_FORWARD", "JUMP_BACKWARD")):
                    todo.append(at + 1)
                if _is_jump(one.name):
                    todo.append(self.index.get(_jump_target(one)))
        if "swallows" in found:
            return "swallows" if len(found) == 1 else "depends"
        return "translates" if "translates" in found else "raises"


UNKNOWN = ("unknown",)
_readers: Dict[int, Reader] = {}


def read(code: types.CodeType) -> Reader:
    """The reader of `code`; the most recent ones are kept."""
    found = _readers.get(id(code))
    if found is None:
        if len(_readers) >= MAX_CODES:
            _readers.clear()
        found = _readers[id(code)] = Reader(code)  # which keeps the code, and so its id
    return found


def evaluate(expression: Any, frame: types.FrameType) -> Any:
    """The value of what `_push` has built, in `frame`; LookupError where it has none."""
    kind = expression[0]
    if kind == "const":
        return expression[1]
    if kind == "attribute":
        return getattr(evaluate(expression[1], frame), expression[2])
    if kind == "tuple":
        return tuple(evaluate(one, frame) for one in expression[1])
    if kind == "local":
        return frame.f_locals[expression[1]]
    if kind == "global":
        name = expression[1]
        scopes = (frame.f_globals, frame.f_builtins)
        if frame.f_locals is not frame.f_globals and expression[2]:
            scopes = (frame.f_locals, *scopes)  # type: ignore[assignment]
        for scope in scopes:
            if name in scope:
                return scope[name]
    raise LookupError(kind)


def _push(stack: List[Any], code: types.CodeType, one: Instruction) -> bool:
    """Follows one instruction that builds a value; False where it is not understood."""
    name, argument = one.name, one.argument
    variable: Any = getattr(code, "_varname_from_oparg")  # noqa: B009
    if name == "LOAD_CONST":
        stack.append(("const", code.co_consts[argument]))
    elif name == "LOAD_GLOBAL":
        stack.append(("global", code.co_names[argument >> 1], False))
    elif name == "LOAD_NAME":
        stack.append(("global", code.co_names[argument], True))
    elif name in ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_CLASSDEREF"):
        stack.append(("local", variable(argument)))
    elif name in ("STORE_FAST_LOAD_FAST", "LOAD_FAST_LOAD_FAST"):  # 3.13: two in one
        if name.startswith("LOAD"):
            stack.append(("local", variable(argument >> 4)))
        stack.append(("local", variable(argument & 15)))
    elif name in ("LOAD_ATTR", "LOAD_METHOD") and stack:
        index = argument >> 1 if _SINCE_3_12 else argument
        stack.append(("attribute", stack.pop(), code.co_names[index]))
    elif name == "BUILD_TUPLE" and len(stack) >= argument:
        items = stack[len(stack) - argument :]
        del stack[len(stack) - argument :]
        stack.append(("tuple", items))
    else:
        return False
    return True


def _ends_expression(name: str) -> bool:
    if name == "STORE_FAST_LOAD_FAST":
        return False
    return name.startswith(("STORE_", "POP_", "RETURN_", "RERAISE", "RAISE_", "DELETE_", "JUMP_"))


def _is_jump(name: str) -> bool:
    return "JUMP" in name or name in ("FOR_ITER", "SEND")


def _jump_target(one: Instruction) -> int:
    distance = -one.argument if "BACKWARD" in one.name else one.argument
    return one.after + 2 * distance


def _decode(code: bytes) -> List[Instruction]:
    """All instructions; one with prefixes has the offset of the first prefix, as jumps see it."""
    found: List[Instruction] = []
    argument = start = i = 0
    while i < len(code):
        operation = code[i]
        argument = (argument << 8) | code[i + 1]
        i += 2
        if operation == _EXTENDED_ARG:
            continue
        while i < len(code) and code[i] == _CACHE:
            i += 2
        found.append(Instruction(start, _NAMES[operation], argument, i))
        argument, start = 0, i
    return found


def _table(data: bytes) -> List[Entry]:
    found: List[Entry] = []
    numbers = _varints(data)
    for i in range(0, len(numbers) - 3, 4):
        start, length, target, _ = numbers[i : i + 4]
        found.append(Entry(2 * start, 2 * (start + length), 2 * target))
    return found


def _varints(data: bytes) -> List[int]:
    numbers: List[int] = []
    value = 0
    for byte in data:
        value = (value << 6) | (byte & 63)
        if not byte & 64:
            numbers.append(value)
            value = 0
    return numbers
