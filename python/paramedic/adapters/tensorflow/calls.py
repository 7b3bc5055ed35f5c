"""Calls of traced functions: steps, and where workers wait for each other.

Every call of a function ends in `AtomicFunction.call_flat`. One that contains collectives returns
when all workers have come to the same call, so it is told as one collective of the group of all
workers, by its number, its name, and how many values it exchanges. Collectives that are called
eagerly are told as what they are.

How long a worker waited inside of a call, and how long it worked, no clock tells apart exactly:
what the process did not compute meanwhile counts as waiting. So a worker that reads or sleeps
inside of the graph looks as if it waited; one that computes does not.
"""

import functools
import itertools
import sys
import weakref
from time import perf_counter_ns, process_time_ns
from typing import Any, Callable, Dict, MutableMapping, NamedTuple, Optional, Tuple

from paramedic import _probe
from paramedic.adapters.common.ranks import rank_ranges
from paramedic.adapters.common.source import Source, place
from paramedic.adapters.tensorflow.marks import Exchange, MarkBook
from paramedic.adapters.tensorflow.pace import Pace
from paramedic.adapters.tensorflow.session import Session

MAX_CALLS = 4096  # different ones; then they are forgotten and made anew
GROUP = "workers"
NOWHERE = 0xFFFFFFFF

# Of `tensorflow.python.ops.collective_ops`, with and without the version at the end.
OPERATIONS = ("all_reduce", "all_gather", "broadcast_send", "broadcast_recv", "all_to_all")
# A worker that sends and those that receive are in the same call.
_BROADCAST = "broadcast"
_SAME = {"broadcast_send": _BROADCAST, "broadcast_recv": _BROADCAST}


class Function(NamedTuple):
    """What is kept of a traced function."""

    name: str
    trains: bool
    exchange: Optional[Exchange]  # all that it exchanges; None when it does not
    losses: Tuple[Any, ...]  # that are followed in it


Entry = Tuple[int, int]  # group, number in it


class Calls:
    """Watches functions being called by the thread that trains."""

    def __init__(self, session: Session, source: Source, marks: MarkBook, pace: Pace) -> None:
        self._session = session
        self._source = source
        self._marks = marks
        self._pace = pace
        self._tap = session.tap("functions")
        self._functions: MutableMapping[Any, Function] = weakref.WeakKeyDictionary()
        self._records: Dict[Tuple[Any, ...], Tuple[Any, Any]] = {}
        self._numbers: Any = itertools.count()
        self._definitions: Dict[Any, int] = {}
        # Changes with every sign that the job goes on; calls that are none; read by other threads.
        self.count = 0
        self.others = 0
        # (number, operation) of the call in which the thread that trains is.
        self.inside: Optional[Tuple[int, str]] = None
        # Given the losses that were followed in a function that trains, and its arguments.
        self.on_trained: Callable[[Any, Any], None] = lambda losses, arguments: None
        self._step_ns = 0
        self._applying = 0
        session.on_fork.append(self._reset)

    def _reset(self) -> None:
        self._records.clear()
        self._definitions.clear()
        self._numbers = itertools.count()
        self.inside = None

    def watch(self) -> None:
        """Replaces the method that every call ends in, and the collectives."""
        atomic: Any = sys.modules["tensorflow.python.eager.polymorphic_function.atomic_function"]
        self._wrap_calls(atomic.AtomicFunction)
        collectives: Any = sys.modules["tensorflow.python.ops.collective_ops"]
        for operation in OPERATIONS:
            for name in (operation, operation + "_v2", operation + "_v3"):
                genuine = getattr(collectives, name, None)
                if genuine is not None:
                    wrapped = self._wrapped_collective(genuine, _SAME.get(operation, operation))
                    setattr(collectives, name, wrapped)

    def wrap_optimizer(self, owner: Any, name: str) -> None:
        """Replaces the method of an optimizer that changes weights."""
        genuine, tap, marks = getattr(owner, name), self._tap, self._marks

        @functools.wraps(genuine)
        def apply(*args: Any, **kwargs: Any) -> Any:
            # One optimizer may call another one, or itself.
            outermost = tap.on and not self._applying
            if not outermost:
                return genuine(*args, **kwargs)
            eager = False
            try:
                eager = marks.is_eager()
                if not eager:
                    marks.note_training()
            except Exception as error:
                tap.fail(error)
            self._applying += 1
            try:
                result = genuine(*args, **kwargs)
            finally:
                self._applying -= 1
            if eager and tap.on:
                self.end_step()
            return result

        setattr(owner, name, apply)

    def _wrap_calls(self, owner: Any) -> None:
        genuine, tap, begin = owner.call_flat, self._tap, self._begin

        @functools.wraps(genuine)
        def call_flat(function: Any, *args: Any) -> Any:
            known = begin(function) if tap.on else None
            if known is None:
                return genuine(function, *args)
            entry = self._enter(known.exchange)
            cpu, start = process_time_ns(), perf_counter_ns()
            try:
                result = genuine(function, *args)
            finally:
                self._leave(entry, start, cpu)
            if known.trains:
                self.on_trained(known.losses, args)
                self.end_step()
            return result

        owner.call_flat = call_flat

    def _learn(self, function: Any) -> Function:
        graph = getattr(function, "_cached_graph", None)
        marks = self._marks.of(graph) if graph is not None else None
        name = str(getattr(graph, "name", "")) or "a function"
        exchange = None
        if marks is not None and marks.exchanges:
            values = sum(exchange.values for exchange in marks.exchanges)
            exchange = Exchange(name, values, marks.exchanges[0].dtype)
        known = Function(name, False, None, ())
        if marks is not None:
            known = Function(name, marks.trains, exchange, tuple(marks.losses))
        self._functions[function] = known
        return known

    def _begin(self, function: Any) -> Optional[Function]:
        """The function, when it runs now and trains or exchanges something; else None."""
        try:
            known = self._functions.get(function) or self._learn(function)
            if not known.trains and known.exchange is None:
                self.others += 1
                return None
            if self._marks.is_eager():
                return known if self._session.active() else None
            inner = self._marks.of(function._cached_graph)
            if inner is not None:
                self._marks.inherit(inner)
        except Exception as error:
            self._tap.fail(error)
        return None

    def _wrapped_collective(self, genuine: Any, operation: str) -> Any:
        tap = self._tap

        @functools.wraps(genuine)
        def collective(*args: Any, **kwargs: Any) -> Any:
            if not tap.on or not self._called(operation, args, kwargs):
                return genuine(*args, **kwargs)
            entry = self._enter(_exchange(operation, args, kwargs))
            cpu, start = process_time_ns(), perf_counter_ns()
            try:
                return genuine(*args, **kwargs)
            finally:
                self._leave(entry, start, cpu)

        return collective

    def _called(self, operation: str, args: Any, kwargs: Any) -> bool:
        """Whether a collective runs now; one that is traced is noted for its function."""
        try:
            if self._marks.is_eager():
                return self._session.active()
            self._marks.note_exchange(_exchange(operation, args, kwargs))
        except Exception as error:
            self._tap.fail(error)
        return False

    def _enter(self, exchange: Optional[Exchange]) -> Optional[Entry]:
        """The call as it was recorded; None where nobody is waited for in it."""
        session = self._session
        probe, task = session.probe, session.task
        self.count += 1
        try:
            if exchange is None or probe is None or task is None or self.inside is not None:
                return None
            if task.rank not in task.workers or len(task.workers) < 2:
                return None
            frame = self._source.frame(sys._getframe(2))
            at = 0 if frame is None else id(frame.f_code) + frame.f_lasti
            found = self._records.get((at, exchange)) or self._record(at, exchange, frame)
            number = next(self._numbers)
            self.inside = number, exchange.operation
            probe.enter(session.step, number, found[1])
            return found[0].group, number
        except Exception as error:
            self._tap.fail(error)
            return None

    def _leave(self, entry: Optional[Entry], start: int, cpu: int) -> None:
        self.count += 1
        if entry is None:
            return
        self._pace.waited(max(0, perf_counter_ns() - start - (process_time_ns() - cpu)))
        self.inside = None
        probe = self._session.probe
        if probe is not None:
            probe.leave(self._session.step, entry[1], entry[0])

    def _record(self, at: int, exchange: Exchange, frame: Any) -> Tuple[Any, Any]:
        if len(self._records) >= MAX_CALLS:
            self._records.clear()
        record = _probe.Collective()
        record.group = self._group()
        record.operation = self._define(_probe.KIND_OPERATION, exchange.operation)
        file, line, function = place(frame)
        record.where = NOWHERE
        if frame is not None:
            name = f"{function}\n{file}"
            record.where = self._define(_probe.KIND_CALL_SITE, name, line)
        record.peer = -1
        record.dtype = _probe.DTYPES.get(exchange.dtype, _probe.DTYPES["uint8"])
        if exchange.values > 0:
            record.ndim = 1
            record.sizes[0] = exchange.values
            record.bytes = exchange.values
        found = self._records[(at, exchange)] = record, _probe.pointer_to(record)
        return found

    def _define(self, kind: int, name: str, line: int = 0) -> int:
        key = kind, name, line
        number = self._definitions.get(key)
        if number is None:
            assert self._session.probe is not None
            sizes = (line,) if line else ()
            number = self._session.probe.define(kind, 0, sizes, name)
            self._definitions[key] = number = number if number >= 0 else NOWHERE
        return number

    def _group(self) -> int:
        known = self._definitions.get(_probe.KIND_GROUP)
        if known is not None:
            return known
        number = self._definitions[_probe.KIND_GROUP] = self._define(_probe.KIND_GROUP, GROUP)
        assert self._session.task is not None
        self._session.tell(
            "process_group",
            {
                "name": GROUP,
                "description": "the workers of TF_CONFIG",
                "backend": "tf.distribute",
                "ranks": rank_ranges(self._session.task.workers),
                "timeout_s": 0.0,
            },
        )
        return number

    def end_step(self) -> None:
        """The thread that trains has changed the weights, or has sent off what will."""
        try:
            if not self._session.active():
                return
            self._close_step(perf_counter_ns())
        except Exception as error:
            self._tap.fail(error)

    def _close_step(self, now: int) -> None:
        session = self._session
        probe = session.probe
        if probe is None:
            return
        self.count += 1
        task = session.task
        # Workers of parameter servers do not go in step.
        if task is None or task.world_size == len(task.workers):
            self._pace.beat()
        if self._step_ns:
            took = now - self._step_ns
            if session.due:
                probe.scalar(session.step, "step_ms", took / 1e6)
            probe.step_done(session.step, took, perf_counter_ns() - now, session.due)
        self._step_ns = now
        session.step += 1
        session.open_step()


def _exchange(operation: str, args: Any, kwargs: Any) -> Exchange:
    """A collective as it is called: its input comes first."""
    if operation == _BROADCAST:
        # Senders and receivers name what they exchange in different ways.
        return Exchange(operation, 0, "uint8")
    tensor = next(iter(args or kwargs.values()), None)
    return Exchange(operation, _size(tensor), _dtype(tensor))


def _size(tensor: Any) -> int:
    """Elements of a tensor, or of a shape; 0 where that is not known."""
    try:
        count = getattr(getattr(tensor, "shape", tensor), "num_elements", None)
        return int((count() if count is not None else 0) or 0)
    except (TypeError, ValueError):
        return 0


def _dtype(tensor: Any) -> str:
    return str(getattr(getattr(tensor, "dtype", None), "name", "float32"))
