"""What a piece of code changes of the objects that were there before it.

Used in a copy of the process (sandbox.py), which can end at any time: what cannot be told there
counts as changed. Watched are the objects that can be reached from the names given: containers and
attributes of the job's own, tensors, arrays, iterators, the random state, and files that are
written to.
"""

from __future__ import annotations

import builtins
import io
import pickle
import random
import sys
import threading
import types
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

MAX_OBJECTS = 300_000
MAX_ARRAY_BYTES = 256 << 20
MAX_DEPTH = 200
PLAIN = (int, float, complex, str, bytes, bool, type(None), range, slice, types.CodeType)
_PRINT = print
_WRITING = ("write", "writelines", "truncate", "print", "read", "readline", "readlines", "readinto")


class Unknown(Exception):
    """There is too much to watch."""


@dataclass
class Change:
    """An object that is not as it was."""

    owner: Any
    before: Any  # its state
    now: Any
    way: Tuple[int, ...]  # to it: number of the root, then places in the states on the way


class Watch:
    """The state of everything that can be reached from `roots`, to be compared with later on."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._states: List[Tuple[Any, Callable[[Any], Any], Any]] = []
        self._from: Dict[int, Tuple[int, int]] = {}
        self._bytes = 0
        self._reported = False
        todo: List[Tuple[Any, int, int]] = [(one, 0, at) for at, one in enumerate(roots)]
        while todo:
            value, parent, at = todo.pop()
            if isinstance(value, PLAIN) or id(value) in self._from:
                continue
            self._from[id(value)] = parent, at
            if len(self._from) > MAX_OBJECTS:
                raise Unknown("too many objects")
            state = state_of(value)
            if state is None:
                self._states.append((value, _nothing, None))  # its address stays its own
                continue
            now = state(value)
            self._bytes += len(now) if isinstance(now, bytes) else 0
            if self._bytes > MAX_ARRAY_BYTES:
                raise Unknown("too much data")
            self._states.append((value, state, now))
            if isinstance(now, (list, tuple)):
                todo.extend((one, id(value), i) for i, one in enumerate(now))
        self._random = _random_state()

    def during(self, work: Callable[[], None]) -> None:
        """Runs `work`, with an eye on what it reads, writes and prints."""

        def seen(_: Any, event: str, called: Any) -> None:
            if event == "c_call" and getattr(called, "__name__", "") in _WRITING:
                owner = getattr(called, "__self__", None)
                self._reported |= called is _PRINT or isinstance(owner, io.IOBase)

        sys.setprofile(seen)
        try:
            work()
        finally:
            sys.setprofile(None)

    def cannot_be_undone(self) -> Optional[str]:
        """What is not as it was outside of the objects."""
        if self._reported:
            return "what is printed or in a file"
        return "the random numbers" if _random_state() != self._random else None

    def changes(self, apart: Iterable[Any] = ()) -> List[Change]:
        """Which objects are not as they were; `apart`: that may have changed."""
        allowed = {id(one) for one in apart}
        found: List[Change] = []
        for value, state, before in self._states:
            if id(value) in allowed:
                continue
            now = state(value)
            if not _is_same(now, before):
                found.append(Change(value, before, now, self._way_to(value)))
        return found

    def _way_to(self, value: Any) -> Tuple[int, ...]:
        way: List[int] = []
        at = id(value)
        while at:
            at, place = self._from[at]
            way.append(place)
        return tuple(way[::-1])


def silently(work: Callable[[], None]) -> None:
    """Runs `work`, without what it prints on this thread to where printing goes by itself."""
    thread = threading.get_ident()

    def printed(*values: Any, **options: Any) -> None:
        if threading.get_ident() != thread or options.get("file") is not None:
            _PRINT(*values, **options)

    before = builtins.print
    builtins.print = printed
    try:
        work()
    finally:
        builtins.print = before


def text_of(change: Change) -> str:
    """For people."""
    if isinstance(change.owner, dict):
        return "a dict with " + ", ".join(f"{one!r:.30}" for one in [*change.owner][:3])
    return f"a {type(change.owner).__name__}"


def at_the_end_of(way: Tuple[int, ...], roots: List[Any]) -> Any:
    """The object to which a `Change.way` leads, in a process that has not changed it yet."""
    value = roots[way[0]]
    for place in way[1:]:
        state = state_of(value)
        value = state(value)[place] if state is not None else None
    return value


def can_be_put_back(owner: Any) -> bool:
    """Whether `put_back` knows how."""
    return isinstance(owner, (dict, list, set)) or hasattr(owner, "__dict__")


def kept_of(owner: Any) -> Any:
    """What `put_back` needs."""
    if isinstance(owner, (list, set)):
        return type(owner)(owner) if type(owner) in (list, set) else [*owner]
    return dict(owner if isinstance(owner, dict) else owner.__dict__)


def kept_of_state(change: Change) -> Any:
    """What `put_back` needs, of an object that has changed already."""
    before = change.before
    if isinstance(change.owner, (list, set)):
        return before if isinstance(change.owner, list) else {*before}
    count = before[0]
    return dict(zip(before[1 : 1 + count], before[1 + count : 1 + 2 * count]))


def put_back(owner: Any, kept: Any) -> None:
    """Gives an object the contents that it had."""
    if isinstance(owner, list):
        owner[:] = kept
    elif isinstance(owner, set):
        owner.clear()
        owner.update(kept)
    else:
        names = owner if isinstance(owner, dict) else owner.__dict__
        for name in [*names]:
            if name not in kept:
                del names[name]
        for name, value in kept.items():
            if names.get(name) is not value:
                names[name] = value


def _nothing(_: Any) -> None:
    return None


def _is_same(now: Any, before: Any) -> bool:
    if isinstance(now, (list, tuple)):
        return len(now) == len(before) and all(
            one is other or (isinstance(one, PLAIN) and type(one) is type(other) and one == other)
            for one, other in zip(now, before)
        )
    return bool(now == before)


def state_of(value: Any) -> Optional[Callable[[Any], Any]]:
    """What tells whether an object has changed; None where it cannot, or need not be looked at."""
    kind = type(value)
    for known, state in _STATES:
        if issubclass(kind, known):
            return state
    name = f"{kind.__module__}.{kind.__name__}"
    if name.startswith(("torch.", "numpy.")) and name in _LIBRARY:
        return _LIBRARY[name]
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _array
    if isinstance(value, type):
        return _class if _is_of_the_job(value.__module__) else None
    if isinstance(value, types.ModuleType):
        return None
    if hasattr(value, "__dict__") or hasattr(kind, "__slots__"):
        return _attributes
    return None


def _is_of_the_job(module: Any) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and file != "" and not file.startswith(sys.base_prefix)


def _items(value: Any) -> Any:
    return [len(value), *dict.keys(value), *dict.values(value)]


def _sequence(value: Any) -> Any:
    return [*value]


def _set(value: Any) -> Any:
    return sorted(value, key=id)


def _function(value: Any) -> Any:
    found = [value.__code__, value.__defaults__, *(value.__kwdefaults__ or {}).values()]
    for cell in value.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found


def _method(value: Any) -> Any:
    return [value.__self__, value.__func__]


def _attributes(value: Any) -> Any:
    found = _items(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            try:
                found.append(object.__getattribute__(value, name))
            except AttributeError:
                continue
    # Also what the classes of the job count on themselves.
    return [*found, type(value)]


def _class(value: Any) -> Any:
    return [one for name, one in vars(value).items() if not name.startswith("__")]


def _generator(value: Any) -> Any:
    frame = getattr(value, "gi_frame", None) or getattr(value, "cr_frame", None)
    return [frame.f_lasti, *frame.f_locals.values()] if frame is not None else []


def _iterator(value: Any) -> Any:
    return [getattr(value, "__length_hint__", int)()]


def _tensor(value: Any) -> Any:
    grad = value.grad if value.is_leaf else None
    return [value._version, grad, value.requires_grad]


def _array(value: Any) -> Any:
    if value.dtype.hasobject:
        return [*value.flat]
    if value.nbytes > MAX_ARRAY_BYTES:
        raise Unknown("too much data")
    return value.tobytes()


def _generator_of_numbers(value: Any) -> Any:
    if hasattr(value, "bit_generator"):
        return pickle.dumps(value.bit_generator.state)
    if hasattr(value, "getstate"):
        return pickle.dumps(value.getstate())
    state = value.get_state()
    return state.numpy().tobytes() if hasattr(state, "numpy") else pickle.dumps(state)


_ITERABLES: List[Any] = [[], (), {}, {}.items(), {}.values(), set(), "", range(1)]
ITERATORS = tuple(type(iter(one)) for one in _ITERABLES)
_STATES: List[Tuple[Any, Callable[[Any], Any]]] = [
    (io.IOBase, lambda value: [value.closed]),
    (dict, _items),
    ((list, tuple), _sequence),
    ((set, frozenset), _set),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    ((types.GeneratorType, types.CoroutineType), _generator),
    (ITERATORS, _iterator),
    (random.Random, _generator_of_numbers),
]
_LIBRARY: Dict[str, Callable[[Any], Any]] = {
    "torch._C.Generator": _generator_of_numbers,
    "numpy.random._generator.Generator": _generator_of_numbers,
    "numpy.random.mtrand.RandomState": _generator_of_numbers,
}


def _random_state() -> Any:
    found: List[Any] = [random.getstate()]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        found.append(pickle.dumps(numpy.random.get_state()))
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found.append(bytes(torch.get_rng_state().numpy().tobytes()))
    return found


# ---------------------------------------------------------------------- values


def is_equal(value: Any, other: Any) -> bool:
    """Whether two values are the same, as far down as they go; what cannot be told is not."""
    return _equal(value, other, {}, 0)


def _equal(value: Any, other: Any, met: Dict[Tuple[int, int], Any], depth: int) -> bool:
    if value is other:
        return True
    if type(value) is not type(other) or depth > MAX_DEPTH:
        return False
    if isinstance(value, PLAIN):
        return bool(value == other or (value != value and other != other))
    if (id(value), id(other)) in met:
        return True
    met[id(value), id(other)] = value, other
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        same = value.dtype == other.dtype and value.shape == other.shape
        return same and bool(((value == other) | ((value != value) & (other != other))).all())
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        if value.dtype != other.dtype or value.shape != other.shape:
            return False
        if not value.dtype.hasobject:
            return bool(value.tobytes() == other.tobytes())
    some, others = _parts(value), _parts(other)
    if some is None or others is None or len(some) != len(others):
        return False
    return all(_equal(a, b, met, depth + 1) for a, b in zip(some, others))


def _parts(value: Any) -> Optional[List[Any]]:
    """What an object consists of, in an order; None where that cannot be told."""
    if isinstance(value, (dict, list, tuple)) and hasattr(value, "__dict__"):
        # Of a class that derives from them.
        items = _items(value) if isinstance(value, dict) else [*value]
        return [*items, *_parts_of_attributes(value)]
    if isinstance(value, dict):
        return [*_items(value)]
    if isinstance(value, (list, tuple)):
        return [*value]
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, types.FunctionType):
        return [*_function(value), value.__qualname__]
    if isinstance(value, types.MethodType):
        return [*_method(value)]
    if isinstance(value, (types.GeneratorType, types.CoroutineType, io.IOBase, type)):
        return None
    if hasattr(value, "__dict__"):
        return _parts_of_attributes(value)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        return None
    return [*reduced] if isinstance(reduced, tuple) else [reduced]


def _parts_of_attributes(value: Any) -> List[Any]:
    own = value.__dict__
    # What stands in slots comes after them, and the class last of all.
    return [*own.keys(), *_attributes(value)[1 + len(own) :]]
