"""Finds the line that made data which were not finite when the iteration began.

Runs in the forked child of the search (`nan_replay`), so that whatever is run once more stays
there. What a loader handed out is fetched again, sample by sample, and put together again; what
another loop handed out is drawn again; and for a variable that was made before the loop the
statements that it depends on are run again. Meanwhile every line of the user's own code is watched:
the first one after which a variable holds what is not finite has made it.
"""

import ast
import linecache
import math
import operator
import sys
from functools import partial
from time import process_time
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from paramedic.adapters.common.source import Source
from paramedic.adapters.torch.nan_region import bound

LIMIT_S = 4  # of processor time
MAX_ITEMS = 64  # of a list or a dictionary
MAX_DEPTH = 3
MAX_STATEMENTS = 200

Place = Tuple[str, int, str]


class _Found(BaseException):
    """The line is known."""


class Watcher:
    """Runs something, and stops after the first line that makes what is not finite."""

    def __init__(self, source: Source, is_bad: Callable[[Any], bool]) -> None:
        self._source = source
        self._is_bad = is_bad
        self._end = process_time() + LIMIT_S
        # By frame: the line that runs, and the variables that are bad already.
        self._lines: Dict[int, int] = {}
        self._known: Dict[int, Set[str]] = {}
        # Variables of a module that are looked at; of functions it is all.
        self.names: Set[str] = set()
        self.place: Optional[Place] = None

    def run(self, call: Callable[[], Any]) -> Any:
        """What `call` gives; None where it failed, was stopped, or took too long."""
        sys.settrace(self._enter)
        try:
            return call()
        except (_Found, Exception):
            return None
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if process_time() > self._end:
            raise _Found
        if not self._source.is_user(frame.f_code):
            return None
        self._known[id(frame)] = set(self._bad_in(frame))
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event in ("line", "return") and id(frame) in self._lines:
            new = self._bad_in(frame) - self._known[id(frame)]
            if new or (event == "return" and self._is_new(frame, argument)):
                self._stop(frame)
        self._lines[id(frame)] = frame.f_lineno
        if event == "return":
            self._lines.pop(id(frame), None)
        return self._line

    def _is_new(self, frame: FrameType, returned: Any) -> bool:
        return not self._known[id(frame)] and self._is_bad(returned)

    def _stop(self, frame: FrameType) -> None:
        if self.place is None:
            code = frame.f_code
            self.place = (code.co_filename, self._lines[id(frame)], code.co_name)
        raise _Found

    def _bad_in(self, frame: FrameType) -> Set[str]:
        values = frame.f_locals
        of_module = values is frame.f_globals or frame.f_code.co_name == "<module>"
        names = [name for name in values if not of_module or name in self.names]
        return {name for name in names if self._is_bad(values[name])}


class Data:
    """Traces a tensor that came into the iteration back to the line that made it."""

    def __init__(self, torch: Any, source: Source) -> None:
        self._torch = torch
        self._source = source

    def of_loop(self, frame: FrameType, loop: ast.For, leaf: Any) -> Optional[Place]:
        """The line behind what a loop hands out."""
        watcher = Watcher(self._source, self._badness(leaf))
        iterator = self._loader_iterator() if self._may_be_loader(frame, loop) else None
        if iterator is None:
            return self._drawn_again(frame, loop, watcher) or self.of_variable(frame, leaf)
        for indices in _indices(iterator):
            items = [
                watcher.run(partial(operator.getitem, iterator._dataset, at)) for at in indices
            ]
            if watcher.place is None and all(item is not None for item in items):
                watcher.run(partial(iterator._collate_fn, items))
            if watcher.place is not None:
                return watcher.place
        for tensor in getattr(iterator._dataset, "tensors", ()):
            if self._badness(leaf)(tensor):
                return self.of_variable(frame, tensor)
        return None

    def of_variable(self, frame: Optional[FrameType], leaf: Any) -> Optional[Place]:
        """The line behind a variable that one of the user's frames had before the loop."""
        while frame is not None:
            if self._source.is_user(frame.f_code):
                names = [n for n, v in self._variables(frame) if _same_memory(v, leaf)]
                statements = _before(frame)
                for name in names:
                    wanted = _needed(statements, name)
                    if wanted:
                        return self._run_again(frame, wanted, leaf)
            frame = frame.f_back
        return None

    def _variables(self, frame: FrameType) -> List[Tuple[str, Any]]:
        return [*frame.f_locals.items(), *frame.f_globals.items()]

    def _run_again(
        self, frame: FrameType, statements: List[ast.stmt], leaf: Any
    ) -> Optional[Place]:
        watcher = Watcher(self._source, self._badness(leaf))
        values = {**frame.f_globals, **frame.f_locals}
        watcher.names = {name for statement in statements for name in bound(statement)}
        parameters = set(frame.f_code.co_varnames[: frame.f_code.co_argcount])
        for name in watcher.names - parameters:
            values.pop(name, None)
        module = ast.Module(statements, [])
        code = compile(module, frame.f_code.co_filename, "exec")
        watcher.run(lambda: exec(code, values))
        return watcher.place

    def _drawn_again(self, frame: FrameType, loop: ast.For, watcher: Watcher) -> Optional[Place]:
        code = compile(ast.Expression(loop.iter), "<frozen loop>", "eval")
        values = {**frame.f_globals, **frame.f_locals}

        def draw() -> None:
            for _ in eval(code, values):
                continue

        watcher.run(draw)
        return watcher.place

    def _may_be_loader(self, frame: FrameType, loop: ast.For) -> bool:
        """False where all that the loop goes over is known, and none of it is a loader."""
        if any(isinstance(node, ast.Attribute) for node in ast.walk(loop.iter)):
            return True
        values = {**frame.f_globals, **frame.f_locals}
        names = [node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)]
        loader_class: Any = sys.modules["torch.utils.data"].DataLoader
        known = [values[name] for name in names if name in values]
        return any(thing is loader_class or isinstance(thing, loader_class) for thing in known)

    def _loader_iterator(self) -> Optional[Any]:
        """That of the loader which is read now: the one that gave most."""
        import gc

        dataloader: Any = sys.modules["torch.utils.data.dataloader"]
        found = [
            thing
            for thing in gc.get_objects()
            if issubclass(type(thing), dataloader._BaseDataLoaderIter)
            and hasattr(thing._dataset, "__getitem__")
        ]
        return max(found, key=lambda thing: int(thing._num_yielded), default=None)

    def _badness(self, leaf: Any) -> Callable[[Any], bool]:
        """A test for what the leaf has: NaN, or only infinities."""
        has_nan = bool(self._torch.isnan(leaf.detach()).any().item())
        test = math.isnan if has_nan else math.isinf
        return lambda value: self._is_bad(value, test, 0)

    def _is_bad(self, value: Any, test: Callable[[float], bool], depth: int) -> bool:
        if isinstance(value, float):
            return test(value)
        if isinstance(value, (list, tuple)) and depth < MAX_DEPTH:
            return any(self._is_bad(item, test, depth + 1) for item in value[:MAX_ITEMS])
        if isinstance(value, dict) and depth < MAX_DEPTH:
            return any(
                self._is_bad(item, test, depth + 1) for item in [*value.values()][:MAX_ITEMS]
            )
        library = type(value).__module__.partition(".")[0]
        if isinstance(value, self._torch.Tensor):
            if not value.is_floating_point() or value.is_sparse:
                return False
            looked = self._torch.isnan if test is math.isnan else self._torch.isinf
            return bool(looked(value.detach()).any().item())
        numpy = sys.modules.get("numpy")
        if library == "pandas" and hasattr(value, "isna") and test is math.isnan:
            numbers: Any = value.select_dtypes("number") if hasattr(value, "columns") else value
            return bool(numbers.isna().to_numpy().any())
        if numpy is None or library != "numpy" or getattr(value, "dtype", None) is None:
            return False
        if value.dtype.kind != "f":
            return False
        return bool((numpy.isnan if test is math.isnan else numpy.isinf)(value).any())


def _indices(iterator: Any) -> Iterator[List[Any]]:
    """Of the batch that was given last, where the sampler still has them; then of all samples."""
    sampler_frame = getattr(getattr(iterator, "_sampler_iter", None), "gi_frame", None)
    batch = sampler_frame.f_locals.get("batch") if sampler_frame is not None else None
    if getattr(iterator, "_num_workers", 0) == 0 and isinstance(batch, list):
        yield batch
    loader = getattr(iterator, "_index_sampler", None)
    size = int(getattr(loader, "batch_size", 0) or 1)
    count = len(iterator._dataset)
    for start in range(0, count, size):
        yield list(range(start, min(start + size, count)))


def _same_memory(value: Any, leaf: Any) -> bool:
    if hasattr(value, "untyped_storage"):
        return bool(value.untyped_storage().data_ptr() == leaf.untyped_storage().data_ptr())
    return False


def _before(frame: FrameType) -> List[ast.stmt]:
    """The statements of the frame's function, or module, that lie before the line it runs."""
    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    if not text:
        return []
    body: List[ast.stmt] = ast.parse(text).body
    line, first = frame.f_lineno, frame.f_code.co_firstlineno
    if frame.f_code.co_name != "<module>":
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        made = [n for n in ast.walk(ast.Module(body, [])) if isinstance(n, functions)]
        body = next((n.body for n in made if _starts_at(n, first)), [])
    return [statement for statement in _flat(body) if (statement.end_lineno or 0) < line]


def _starts_at(function: Any, line: int) -> bool:
    decorators = [decorator.lineno for decorator in function.decorator_list]
    return line in [function.lineno, *decorators] and function.name != "<lambda>"


def _flat(body: List[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in order; those inside of `if` and `with` one by one."""
    for statement in body:
        if isinstance(statement, (ast.If, ast.With)):
            yield from _flat(statement.body)
        else:
            yield statement


def _needed(statements: List[ast.stmt], name: str) -> List[ast.stmt]:
    """The statements that a variable's value depends on, in order; none where nothing sets it."""
    needed: Set[str] = {name}
    found: List[ast.stmt] = []
    for statement in reversed(statements[-MAX_STATEMENTS:]):
        if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For)):
            continue
        if _sets(statement) & needed:
            found.append(statement)
            needed |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
    return found[::-1]


def _sets(statement: ast.stmt) -> Set[str]:
    """Variables that a statement sets, or whose elements it sets."""
    names = bound(statement)
    for node in ast.walk(statement):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            inner: Any = node
            while isinstance(inner, (ast.Subscript, ast.Attribute)):
                inner = inner.value
            if isinstance(inner, ast.Name):
                names.add(inner.id)
    return names
