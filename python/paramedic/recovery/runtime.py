"""What transformed code calls. One object a version of a file lies among its code's constants.

Here an exception enters recovery (`crash`) and a repaired frame goes on (`run` and its kin). An
error of our own lets the exception pass as it would have without us.
"""

from __future__ import annotations

import builtins
import itertools
import sys
import types
import weakref
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Dict,
    Generator,
    Iterator,
    List,
    Optional,
    Set,
    Tuple,
)

from paramedic.recovery import contexts, marks
from paramedic.recovery.source import LAMBDA, RUNTIME, Source

TOKEN = object()  # the first item of a loop that is entered again


class Leave(BaseException):
    """Ends a frame whose continuation goes on in its place; never leaves that frame."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function


class Slots:
    """The hidden locals of a module's body."""

    def __init__(self) -> None:
        setattr(self, ".k", None)


class Runtime:
    """The names that transformed code uses are attributes of this."""

    never = (GeneratorExit, StopIteration, StopAsyncIteration, SystemExit, RecursionError)
    any = BaseException
    leave = Leave
    iter = staticmethod(builtins.iter)
    hold = staticmethod(contexts.hold)
    hold_async = staticmethod(contexts.hold_async)
    enter_again = staticmethod(contexts.enter_again)
    iteration_started: marks.Mark
    loop_entered: marks.Mark
    token = TOKEN
    if sys.version_info >= (3, 10):
        aiter = staticmethod(builtins.aiter)

    def __init__(self, file: str, load: Callable[[], Source]) -> None:
        self.file = file
        self.slots = Slots()
        self.is_main = False
        self._load = load
        self._source: Optional[Source] = None
        self._functions: List[weakref.ref[types.FunctionType]] = []
        self.lambdas: List[types.CodeType] = []  # of which nobody knows the functions
        self._prune_at = 256

    def __reduce__(self) -> Any:
        return _of_file, (self.file,)

    @property
    def source(self) -> Source:
        """The version of the file from which this code was made; parsed when first asked for."""
        if self._source is None:
            self._source = self._load()
        return self._source

    def functions(self) -> Iterator[types.FunctionType]:
        """The live functions that this version's code has made."""
        for reference in self._functions:
            function = reference()
            if function is not None:
                yield function

    # ------------------------------------------------------------------ called by transformed code

    def made(self, function: types.FunctionType) -> types.FunctionType:
        """A function came to be; about 0.2 µs."""
        known = self._functions
        known.append(weakref.ref(function))
        if len(known) > self._prune_at:
            known[:] = [one for one in known if one() is not None]
            self._prune_at = 2 * len(known) + 256
        return function

    def begin(self) -> None:
        """The first statement of the script."""
        from paramedic.recovery import script

        script.begin(sys._getframe(1).f_globals)

    def crash(self, key: int, region: int, cells: Any) -> Optional[Leave]:
        """An exception passes a barrier.

        Returns:
            How the frame goes on, or None where the exception is to pass.
        """
        error = sys.exc_info()[1]
        if type(error) is Leave:
            return error
        if error is None:
            return None
        try:
            leave = _met(self, key, region, cells, error, sys._getframe(1))
        except Exception as own:
            note("a crash", own)
            leave = None
        if leave is None and region == 0 and key == 0 and self.is_main:
            self.script_ends()
        return leave

    def run_module(self) -> None:
        """The last statement of a module: runs its continuation where it has one."""
        while True:
            leave = getattr(self.slots, ".k", None)
            if leave is None:
                return
            setattr(self.slots, ".k", None)
            try:
                leave.function()
            except BaseException:
                if self.is_main:
                    self.script_ends()
                raise

    @staticmethod
    def run(leave: Any) -> Any:
        """Goes on in a function's place, however often its continuations crash."""
        while type(leave) is Leave:
            leave = leave.function()
        return leave

    @staticmethod
    def run_generator(leave: Any) -> Generator[Any, Any, Any]:
        """`run` for a generator."""
        while type(leave) is Leave:
            leave = yield from leave.function()
        return leave

    @staticmethod
    async def run_coroutine(leave: Any) -> Any:
        """`run` for a coroutine."""
        while type(leave) is Leave:
            leave = await leave.function()
        return leave

    @staticmethod
    def run_async_generator(leave: Leave) -> Any:
        """`run` for an async generator: its continuation drives the next one itself."""
        return leave.function()

    @staticmethod
    def chain(iterator: Any) -> Any:
        """The token, then what is left of a loop's iterator."""
        return itertools.chain((TOKEN,), iterator)

    @staticmethod
    async def chain_async(iterator: Any) -> AsyncIterator[Any]:
        """`chain` for `async for`."""
        yield TOKEN
        async for item in iterator:
            yield item

    @staticmethod
    def again(error: BaseException) -> BaseException:
        """`error`, to be raised into a handler that is entered again."""
        _raised_again[id(error)] = (error, error.__traceback__, error.__context__)
        return error

    @staticmethod
    def restored() -> None:
        """The first statement of that handler: the exception looks as it did before."""
        kept = _raised_again.pop(id(sys.exc_info()[1]), None)
        if kept is not None:
            kept[0].__traceback__, kept[0].__context__ = kept[1:]

    @staticmethod
    def visible(names: Any) -> Any:
        """What locals(), vars() or dir() gave, without the hidden names."""
        if isinstance(names, dict):
            for name in [one for one in names if isinstance(one, str) and one[:1] == "."]:
                del names[name]
            return names
        return [one for one in names if one[:1] != "."]

    # ------------------------------------------------------------------

    @staticmethod
    def script_ends() -> None:
        """An exception leaves the script."""
        from paramedic.recovery import script

        script.trim_what_is_shown()


marks.connect(Runtime)


def _load_and_meet(*arguments: Any) -> Optional[Leave]:
    """Loads what a crash needs, once; it imports this module."""
    global _met
    from paramedic.recovery import resume

    _met = resume.met
    return resume.met(*arguments)


_met: Callable[..., Optional[Leave]] = _load_and_meet
_raised_again: Dict[int, Any] = {}
_runtimes: Dict[str, List[Runtime]] = {}  # file -> its versions, the newest last


def add(runtime: Runtime) -> None:
    """The newest version of its file."""
    _runtimes.setdefault(runtime.file, []).append(runtime)


def versions(file: str) -> List[Runtime]:
    """All versions of the file, the newest last."""
    return list(_runtimes.get(file, ()))


def newest(file: str) -> Optional[Runtime]:
    """The version of the file that counts now."""
    known = _runtimes.get(file)
    return known[-1] if known else None


def files() -> List[str]:
    """The files whose code was transformed."""
    return list(_runtimes)


def of_code(code: types.CodeType) -> Optional[Runtime]:
    """The runtime among the constants of transformed code."""
    for const in code.co_consts:
        if type(const) is Runtime:
            return const
    return None


def _of_file(file: str) -> Runtime:
    found = newest(file)
    return found if found is not None else Runtime(file, lambda: missing(file))


def missing(file: str) -> Source:
    """Stands for the source of a file that has none here."""
    raise LookupError(f"{file} was not transformed in this process")


def place(code: types.CodeType, runtime: Runtime) -> types.CodeType:
    """Puts the runtime among the constants of `code` and of all code inside it.

    Lambdas in it get the code of the functions that do the same, with barriers.
    """
    consts = tuple(
        _placed(one, runtime)
        if isinstance(one, types.CodeType)
        else (runtime if isinstance(one, str) and one == RUNTIME else one)
        for one in code.co_consts
    )
    return code.replace(co_consts=consts)


def _placed(code: types.CodeType, runtime: Runtime) -> types.CodeType:
    if code.co_name == LAMBDA and b"lambda" in runtime.source.text:
        from paramedic.recovery import live

        made = live.of_lambda(runtime, code)
        if made is not None:
            return made
    return place(code, runtime)


_told: Set[str] = set()
_untold: List[Tuple[str, str]] = []  # until the adapter can take them
MAX_TOLD = 100


def note(what: str, error: BaseException) -> None:
    """Recovery could not do something: told once, the job goes on."""
    from paramedic import adapters

    what = f"recovery of {what}"
    if what not in _told and len(_told) < MAX_TOLD:
        adapters.note_failure(what, error)
        _tell(what, f"{type(error).__name__}: {error}")


def left_alone(function: str, by: str) -> None:
    """A function is not transformed, since `by` compiles it."""
    what = f"crashes inside {function}"
    if what not in _told and len(_told) < MAX_TOLD:
        _tell(what, f"compiled by {by}, left as written")


def _tell(what: str, why: str) -> None:
    _told.add(what)
    _untold.append((what, why))
    tell()


def tell() -> None:
    """Hands what was noted to the run's `not_captured`, once there is somebody to take it."""
    adapter: Any = sys.modules.get("paramedic.adapters.torch")
    attached = getattr(adapter, "_attached", None)
    if not attached or not _untold:
        return
    try:
        while _untold:
            what, why = _untold.pop()
            attached[0].session.not_captured(what, why)
    except Exception:
        return
