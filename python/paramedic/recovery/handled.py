"""Would anybody up the stack handle this exception? Then it is no crash.

All frames are still there, so each is asked in turn, innermost first: its `except` clauses and
`with` blocks, then what the C code between it and its caller swallows. Where that cannot be known
the answer is yes: a program that would have gone on must never be touched, and an exception that
was let pass in error still meets the barriers further out.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import os
import sys
import types
from typing import Any, Dict, Iterator, List, Optional, Tuple

from paramedic.recovery import bytecode, clauses, contexts
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.runtime import Runtime

MAX_FRAMES = 2000
MAX_RANGES = 100  # nested `try` statements in one frame

# Functions that catch everything only to report it and end: (end of the file's name, function).
LAST_RESORTS = (
    ("threading.py", "_bootstrap_inner"),
    ("multiprocessing/process.py", "_bootstrap"),
    ("torch/multiprocessing/spawn.py", "_wrap"),
    ("errors/__init__.py", "wrapper"),  # torch.distributed.elastic's @record
    ("click/core.py", "main"),
    ("typer/core.py", "_main"),
    ("typer/main.py", "__call__"),
    ("hydra/_internal/utils.py", "run_and_report"),
    ("hydra/core/utils.py", "run_job"),
    ("IPython/core/interactiveshell.py", "run_code"),
    ("IPython/core/interactiveshell.py", "run_cell_async"),
    ("IPython/core/interactiveshell.py", "_run_cell"),
    ("IPython/core/async_helpers.py", "_pseudo_sync_runner"),
    ("ipykernel/kernelbase.py", "execute_request"),
)


class _Search:
    """One exception on its way up."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.exact = True  # lost once a handler would translate it
        self.by_code = True  # the answer follows from the code of the frames alone


def is_handled(frame: types.FrameType, offset: int, error: BaseException) -> bool:
    """Whether `error`, raised in `frame` at byte `offset`, would be handled."""
    if _is_known(frame, offset, type(error)):
        return True
    search = _Search(error)
    handles = _search(search, frame, offset)
    if handles is not None and search.by_code and search.exact:
        _remember(frame, offset, type(error), handles)
    return handles is not None


# What a program does again and again: where an exception of one type starts, and the frames from
# there to the one that handles it, each as (code, offset).
_Way = Tuple[Tuple[types.CodeType, int], ...]
_known: Dict[Tuple[types.CodeType, int, type], List[_Way]] = {}
MAX_KNOWN = 1024
MAX_WAYS = 8
MAX_WAY = 8


def _is_known(frame: types.FrameType, offset: int, kind: type) -> bool:
    ways = _known.get((frame.f_code, offset, kind))
    for way in ways or ():
        current = frame.f_back
        for code, at in way:
            if current is None or current.f_lasti != at or current.f_code is not code:
                break
            current = current.f_back
        else:
            return True
    return False


def _remember(frame: types.FrameType, offset: int, kind: type, handles: types.FrameType) -> None:
    way: List[Tuple[types.CodeType, int]] = []
    current: Optional[types.FrameType] = frame
    while current is not None and current is not handles:
        current = current.f_back
        if current is None or len(way) == MAX_WAY:
            return
        way.append((current.f_code, current.f_lasti))
    if len(_known) >= MAX_KNOWN:
        _known.clear()
    ways = _known.setdefault((frame.f_code, offset, kind), [])
    if len(ways) < MAX_WAYS:
        ways.append(tuple(way))


def _search(search: _Search, frame: types.FrameType, offset: int) -> Optional[types.FrameType]:
    """The frame that handles the exception, or below which it is handled; None: nobody does."""
    current: Optional[types.FrameType] = frame
    for _ in range(MAX_FRAMES):
        if current is None or _is_last_resort(current.f_code):
            return None
        if _frame_handles(search, current, offset):
            return current
        caller = current.f_back
        if caller is not None and not _is_own(caller) and not _is_own(current):
            if _ends_task(current, caller):
                search.by_code = False
                caller = _outside_of_loop(caller)
                if caller is None:
                    return current
            elif _c_code_handles(search, current, caller):
                return current
        current = caller
        offset = current.f_lasti if current is not None else 0
    return frame


_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _is_own(frame: types.FrameType) -> bool:
    """Between a continuation and the frame whose place it has taken."""
    return frame.f_code.co_filename.startswith(_OWN_FOLDER)


_POSTPONES = (
    contextlib.ExitStack.__exit__.__code__,
    contextlib.AsyncExitStack.__aexit__.__code__,
)
# What @contextmanager makes of a generator function.
_MAKES_MANAGERS = (contextlib.contextmanager(iter).__code__,)


def _frame_handles(search: _Search, frame: types.FrameType, offset: int) -> bool:
    code = frame.f_code
    if code.co_name == "__del__":
        return True  # the interpreter reports and ignores it
    if not code.co_exceptiontable:
        return False
    if code in _POSTPONES:
        # What a clean-up has raised is raised after the others, unless one of those swallows it.
        search.by_code = False
        stack = frame.f_locals.get("self")
        return stack is not None and _swallows(search, stack, 0)
    reader = bytecode.read(code)
    for _ in range(MAX_RANGES):
        entry = reader.entry(offset)
        if entry is None:
            return False
        handler = reader.handler(entry.target)
        if handler.kind == "with":
            search.by_code = False
            if _with_handles(search, reader, entry.target, frame):
                return True
        elif handler.kind == "clauses" and _clauses_handle(search, handler, frame):
            return True
        if entry.target == offset:
            return False
        offset = entry.target
    return True


def _clauses_handle(search: _Search, handler: bytecode.Handler, frame: types.FrameType) -> bool:
    for clause in handler.clauses:
        if _is_barrier(clause.catches):
            return False
        if not _matches(search, clause.catches, frame):
            continue
        outcome: Optional[str] = clause.outcome
        if outcome == "depends":
            search.by_code = False
            outcome = None
        if outcome is None and clause.catches is not None and search.exact:
            outcome = clauses.outcome(frame, clause.offset, search.error)
        if outcome not in ("raises", "translates"):
            return True
        if outcome == "translates":
            search.exact = False
        return False
    return False


def _is_barrier(catches: Any) -> bool:
    """The clause of ours that takes any exception."""
    return bool(
        catches is not None
        and catches[0] == "attribute"
        and catches[2] == "any"
        and catches[1][0] == "const"
        and type(catches[1][1]) is Runtime
    )


def _matches(search: _Search, catches: Any, frame: types.FrameType) -> bool:
    if catches is None:
        return True
    try:
        types_caught = bytecode.evaluate(catches, frame)
        if isinstance(search.error, types_caught):
            return True
        return not search.exact and not _is_narrow(types_caught)
    except Exception:
        return True


def _is_narrow(types_caught: Any) -> bool:
    """Whether a clause catches only what nobody translates an error into."""
    group = types_caught if isinstance(types_caught, tuple) else (types_caught,)
    narrow = (GeneratorExit, KeyboardInterrupt, SystemExit, StopIteration, StopAsyncIteration)
    return all(
        one is Runtime.leave or (isinstance(one, type) and issubclass(one, narrow)) for one in group
    )


# ---------------------------------------------------------------------- with


def _with_handles(
    search: _Search, reader: bytecode.Reader, target: int, frame: types.FrameType
) -> bool:
    before = reader.before_with(target)
    manager = _held_manager(before, reader, frame)
    if manager is not None:
        return _swallows(search, manager, 0)
    if reader.code.co_name == "inner" and reader.code.co_filename == contextlib.__file__:
        return _decorator_swallows(search, frame.f_locals.get("self"))
    return _suppresses_by_name(search, before, reader, frame)


def _held_manager(
    before: List[bytecode.Instruction], reader: bytecode.Reader, frame: types.FrameType
) -> Any:
    """The manager of a transformed `with`, which its hidden local still holds."""
    stack: List[Any] = []
    for one in before[-3:]:
        if not bytecode._push(stack, reader.code, one):
            stack.clear()
    try:
        held = bytecode.evaluate(stack[-1], frame)
    except Exception:
        return None
    if isinstance(held, (contexts.Held, contexts.HeldAsync)):
        return held.manager
    return None


def _suppresses_by_name(
    search: _Search,
    before: List[bytecode.Instruction],
    reader: bytecode.Reader,
    frame: types.FrameType,
) -> bool:
    """A library's `with call():`, whose manager nobody can reach: what is called tells."""
    if not before or not before[-1].name.startswith("CALL"):
        return False
    for at in range(len(before) - 1, max(-1, len(before) - 20), -1):
        stack: List[Any] = []
        for one in before[at:]:
            bytecode._push(stack, reader.code, one)
        if not stack:
            continue
        try:
            called = _look_up(stack[0], frame)
        except Exception:
            continue
        if called is contextlib.suppress:
            caught = tuple(_classes(stack[1:], frame))
            return not search.exact or isinstance(search.error, caught)
        if isinstance(called, types.FunctionType) and called.__code__ in _MAKES_MANAGERS:
            return _generator_swallows(search, getattr(called, "__wrapped__", None))
        if isinstance(called, type) and hasattr(called, "__exit__"):
            leave = called.__exit__
            may_know = isinstance(leave, types.FunctionType) and leave.__code__ not in _POSTPONES
            return may_know and _may_return_true(leave, None, search.error)
    return False


def _look_up(expression: Any, frame: types.FrameType) -> Any:
    """`bytecode.evaluate` of a name and its attributes that runs no property of the job's."""
    if expression[0] != "attribute":
        return bytecode.evaluate(expression, frame)
    found = inspect.getattr_static(_look_up(expression[1], frame), expression[2])
    return found.__func__ if isinstance(found, (classmethod, staticmethod)) else found


def _classes(expressions: List[Any], frame: types.FrameType) -> Iterator[type]:
    for expression in expressions:
        try:
            value = bytecode.evaluate(expression, frame)
        except Exception:
            continue
        if isinstance(value, type):
            yield value


def _swallows(search: _Search, manager: Any, depth: int) -> bool:
    """Whether a manager's __exit__ would keep the exception from going on."""
    error = search.error
    if isinstance(manager, contextlib.suppress):
        caught: Any = getattr(manager, "_exceptions", ())
        return not search.exact or isinstance(error, caught)
    for name in ("expected_exception", "expected"):  # of pytest and of unittest
        expected = getattr(manager, name, None)
        if isinstance(expected, (type, tuple)):
            return isinstance(error, expected)
    generator = getattr(manager, "gen", None)
    inner = getattr(generator, "gi_frame", None) or getattr(generator, "ag_frame", None)
    if isinstance(inner, types.FrameType):
        return _frame_handles(search, inner, inner.f_lasti)
    callbacks = getattr(manager, "_exit_callbacks", None)
    if callbacks is not None and depth < 5:
        owners = [getattr(callback, "__self__", None) for _, callback in callbacks]
        return any(_swallows(search, one, depth + 1) for one in owners if one is not None)
    leave = getattr(type(manager), "__exit__", None) or getattr(type(manager), "__aexit__", None)
    return isinstance(leave, types.FunctionType) and _may_return_true(leave, manager, error)


def _decorator_swallows(search: _Search, manager: Any) -> bool:
    """A manager used as a decorator: it makes its generator anew for each call."""
    function = getattr(manager, "func", None)
    if not isinstance(function, types.FunctionType):
        return _swallows(search, manager, 0)
    return _generator_swallows(search, function)


def _generator_swallows(search: _Search, function: Any) -> bool:
    """A manager that is made of a generator function."""
    if not isinstance(function, types.FunctionType):
        return False
    # Any of its yields may be the one at which it stands.
    frame: Any = types.SimpleNamespace(
        f_code=function.__code__,
        f_globals=function.__globals__,
        f_builtins=vars(builtins),
        f_locals={},
    )
    yields = [
        one.offset
        for one in bytecode.read(function.__code__).instructions
        if one.name == "YIELD_VALUE"
    ]
    return any(_frame_handles(search, frame, offset) for offset in yields)


def _may_return_true(leave: types.FunctionType, manager: Any, error: BaseException) -> bool:
    """Whether an __exit__ can return something else than None, False or 0 for `error`."""
    code = leave.__code__
    runtime = runtime_of.of_code(code)
    function = runtime.source.of_code(code) if runtime is not None else None
    if function is None:
        return _code_may_return_true(code)
    names = [one.arg for one in function.node.args.args]  # type: ignore[union-attr]
    if len(names) != 4:
        return _code_may_return_true(function.code)
    known = dict(zip(names, (manager, type(error), error, error.__traceback__)))
    value = clauses.exit_value(function.body, known, leave.__globals__, error)
    return _code_may_return_true(function.code) if value is None else value


def _code_may_return_true(code: types.CodeType) -> bool:
    """Whether a function can return something else than None, False or 0."""
    previous: Optional[bytecode.Instruction] = None
    for one in bytecode.read(code).instructions:
        value: Any = True
        if one.name == "RETURN_CONST":
            value = code.co_consts[one.argument]
        elif one.name == "RETURN_VALUE":
            if previous is not None and previous.name == "LOAD_CONST":
                value = code.co_consts[previous.argument]
        else:
            previous = one
            continue
        if value:
            return True
        previous = one
    return False


# ---------------------------------------------------------------------- between two Python frames


def _c_code_handles(search: _Search, callee: types.FrameType, caller: types.FrameType) -> bool:
    """What the C code that called `callee` makes of its exception."""
    name, error = callee.f_code.co_name, search.error
    if _operation(caller) in _ONLY_DROPS:
        return True  # an object went, and somebody was told of it: reported and ignored
    may_be_any = not search.exact  # a clause has made another one of it
    if may_be_any or isinstance(error, (AttributeError, IndexError, TypeError)):
        search.by_code = False
    if may_be_any and name in ("__next__", "__anext__"):
        return True
    if isinstance(error, AttributeError) or (may_be_any and _gets_attribute(callee)):
        return _attribute_is_optional(callee, caller)
    if name == "__getitem__" and (may_be_any or isinstance(error, IndexError)):
        operation = _operation(caller)
        if operation.startswith("BINARY_"):
            return False
        return not (operation.startswith("CALL") and "__getitem__" in _text(caller))
    if name in ("__len__", "__length_hint__") and isinstance(error, TypeError):
        return not _text(caller).startswith("len(")
    return False


def _attribute_is_optional(callee: types.FrameType, caller: types.FrameType) -> bool:
    operation = _operation(caller)
    if operation.startswith("CALL"):
        text = _text(caller)
        if text.startswith("hasattr("):
            return True
        if text.startswith("getattr("):
            return text.count(",") >= 2 or "*" in text
        # C code that asks for an attribute: by another name, through map, a partial, isinstance.
        return _gets_attribute(callee)
    if operation.startswith("IMPORT_"):
        return True
    if operation.startswith("LOAD_") and callee.f_code.co_name not in _ATTRIBUTE_METHODS:
        # A property's AttributeError makes the interpreter ask __getattr__.
        return hasattr(type(_owner(callee)), "__getattr__")
    return False


def _owner(getter: types.FrameType) -> Any:
    """The object whose attribute a property or a descriptor works out."""
    code = getter.f_code
    at = 1 if code.co_name == "__get__" else 0
    return getter.f_locals.get(code.co_varnames[at]) if code.co_argcount > at else None


def _gets_attribute(callee: types.FrameType) -> bool:
    """Whether `callee` runs because somebody asked for an attribute."""
    code = callee.f_code
    if code.co_name in (*_ATTRIBUTE_METHODS, "__get__"):
        return True
    return any(
        isinstance(one, property) and getattr(one.fget, "__code__", None) is code
        for cls in type(_owner(callee)).__mro__
        for one in vars(cls).values()
    )


# Instructions that call nothing; what runs inside them is a weakref's callback or a finalizer.
_ONLY_DROPS = (
    "STORE_FAST",
    "STORE_GLOBAL",
    "STORE_DEREF",
    "DELETE_FAST",
    "DELETE_NAME",
    "DELETE_GLOBAL",
    "DELETE_DEREF",
    "POP_TOP",
)
_ATTRIBUTE_METHODS = ("__getattr__", "__getattribute__")


def _operation(frame: types.FrameType) -> str:
    return bytecode.read(frame.f_code).operation(frame.f_lasti)


def _text(frame: types.FrameType) -> str:
    """The source of the call at which a frame stands, as far as its first line has it."""
    import itertools
    import linecache

    code = frame.f_code
    place = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), None)
    if place is None or place[0] is None or place[2] is None:
        return ""
    line = linecache.getline(code.co_filename, place[0], frame.f_globals)
    end = place[3] if place[1] == place[0] else None
    return line.encode()[place[2] : end].decode("utf-8", "replace")


# ---------------------------------------------------------------------- asyncio and last resorts


def _ends_task(frame: types.FrameType, caller: types.FrameType) -> bool:
    """Whether `frame` is the outermost one of an asyncio task: the task keeps its exception."""
    return caller.f_code.co_name == "_run" and caller.f_code.co_filename.endswith(
        "asyncio/events.py"
    )


def _outside_of_loop(frame: types.FrameType) -> Optional[types.FrameType]:
    """Where the exception of the current task comes out: only of the one that the loop runs for."""
    asyncio: Any = sys.modules.get("asyncio")
    current: Optional[types.FrameType] = frame
    while current is not None:
        if current.f_code.co_name == "run_until_complete":
            try:
                is_main = asyncio.current_task() is current.f_locals.get("future")
            except RuntimeError:
                is_main = False
            return current.f_back if is_main else None
        current = current.f_back
    return None


def _is_last_resort(code: types.CodeType) -> bool:
    for file, function in LAST_RESORTS:
        if code.co_name == function and code.co_filename.replace("\\", "/").endswith(file):
            return True
    return False
