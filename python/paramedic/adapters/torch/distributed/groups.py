"""The rendezvous and the process groups.

A job that hangs in `init_process_group` has not trained yet: its ring is opened there. Each group
is told once, with its ranks, when it was made or when it is first used.
"""

import functools
import inspect
import itertools
import os
import weakref
from time import perf_counter_ns
from typing import Any, Callable, Dict, List, Optional, Sequence

from paramedic import _probe
from paramedic.adapters.common.ranks import rank_ranges
from paramedic.adapters.common.rendezvous import note_end
from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.torch.distributed.replace import replace
from paramedic.adapters.torch.session import Session

MAX_GROUPS = 1000  # told in a process
MAX_RANKS = 20_000  # of a group, told in its event


class Group:
    """What is kept of a process group, which itself is held weakly."""

    __slots__ = ("id", "name", "numbers", "ranks", "reference")

    def __init__(self, reference: Any, number: int, name: str, ranks: List[int]) -> None:
        self.reference = reference
        self.id = number
        self.name = name
        self.ranks = ranks
        # The number of the next call.
        self.numbers = itertools.count()


class Groups:
    """Watches process groups come to be."""

    def __init__(self, session: Session, source: Source) -> None:
        self._session = session
        self._source = source
        self._tap = session.tap("process groups")
        self._c10d: Any = None
        self._groups: Dict[int, Group] = {}
        self._numbers: Dict[str, Any] = {}
        # Called when a job of several ranks begins, in the thread that does it.
        self.on_begin: List[Callable[[], None]] = []
        session.on_fork.append(self._reset)

    def _reset(self) -> None:
        self._groups.clear()
        self._numbers.clear()

    def watch(self, c10d: Any) -> None:
        """Replaces the functions that make groups."""
        self._c10d = c10d
        self._wrap_init()
        for name in ("_new_group_with_tag", "split_group"):
            genuine = getattr(c10d, name, None)
            if genuine is not None:
                replace(name, genuine, self._telling(genuine))

    def of(self, process_group: Any) -> Optional[Group]:
        """The group of a call; None when there are too many."""
        group = self._groups.get(id(process_group))
        if group is not None and group.reference() is process_group:
            return group
        return self._tell(process_group)

    def by_name(self, name: str) -> Any:
        """The process group of this name; None when there is none."""
        for process_group, its in self._c10d._world.pg_names.items():
            if its == name:
                return process_group
        return None

    def _wrap_init(self) -> None:
        genuine, tap = self._c10d.init_process_group, self._tap
        signature = inspect.signature(genuine)

        @functools.wraps(genuine)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            fields: Optional[Dict[str, Any]] = None
            if tap.on:
                try:
                    fields = self._begin(signature.bind_partial(*args, **kwargs).arguments)
                except Exception as error:
                    tap.fail(error)
            start = perf_counter_ns()
            try:
                result = genuine(*args, **kwargs)
            except BaseException as error:
                self._done(fields, start, error)
                raise
            self._done(fields, start, None)
            return result

        replace("init_process_group", genuine, init_process_group)

    def _begin(self, arguments: Dict[str, Any]) -> Dict[str, Any]:
        rank, world_size = _probe.rank_from_env()
        rank = _number(arguments.get("rank"), rank)
        world_size = _number(arguments.get("world_size"), world_size)
        address, port = _address(arguments.get("init_method"))
        fields = {
            "state": "begun",
            "where": where(place(self._source.frame(inspect.currentframe()))),
            "init_method": arguments.get("init_method") or "env://",
            "rank": rank,
            "world_size": world_size,
            "master_addr": address,
            "master_port": port,
            "took_ms": 0.0,
            "error": None,
        }
        if world_size > 1 and self._session.open_ring(rank, world_size):
            self._session.shared = True
            self._session.tell("rendezvous", fields)
            for callback in self.on_begin:
                callback()
        return fields

    def _done(self, fields: Optional[Dict[str, Any]], start: int, error: Any) -> None:
        if fields is None or not self._tap.on:
            return
        try:
            note_end(fields, start, error)
            if self._session.probe is not None and self._session.shared:
                self._session.tell("rendezvous", fields)
            if error is None:
                self._tell_new()
        except Exception as problem:
            self._tap.fail(problem)

    def _telling(self, genuine: Any) -> Any:
        @functools.wraps(genuine)
        def make(*args: Any, **kwargs: Any) -> Any:
            result = genuine(*args, **kwargs)
            if self._tap.on:
                try:
                    self._tell_new()
                except Exception as error:
                    self._tap.fail(error)
            return result

        return make

    def _tell_new(self) -> None:
        if self._session.probe is None:
            return
        for process_group in list(self._c10d._world.pg_names):
            self.of(process_group)

    def _tell(self, process_group: Any) -> Optional[Group]:
        probe = self._session.probe
        self._drop_dead()
        if probe is None or len(self._groups) >= MAX_GROUPS:
            return None
        name = str(process_group.group_name)
        number = probe.define(_probe.KIND_GROUP, 0, (), name)
        if number < 0:
            return None
        ranks = [int(rank) for rank in self._c10d.get_process_group_ranks(process_group)]
        group = Group(weakref.ref(process_group), number, name, ranks)
        # A second group of this name goes on counting: its calls are not those of the first.
        group.numbers = self._numbers.setdefault(name, group.numbers)
        self._groups[id(process_group)] = group
        self._session.tell(
            "process_group",
            {
                "name": name,
                "description": str(getattr(process_group, "group_desc", "")),
                "backend": str(self._c10d.get_backend(process_group)),
                "ranks": rank_ranges(ranks[:MAX_RANKS]),
                "timeout_s": self._timeout_s(process_group),
            },
        )
        return group

    def _timeout_s(self, process_group: Any) -> float:
        for device in ("cpu", "cuda"):
            try:
                backend = process_group._get_backend(self._session.torch.device(device))
                return float(backend.options._timeout.total_seconds())
            except (RuntimeError, AttributeError):
                continue
        return 0.0

    def _drop_dead(self) -> None:
        dead = [key for key, group in self._groups.items() if group.reference() is None]
        for key in dead:
            del self._groups[key]


def _number(given: Any, otherwise: int) -> int:
    """An argument of init_process_group; -1 says that the environment has it."""
    return given if isinstance(given, int) and given >= 0 else otherwise


def _address(init_method: Any) -> Sequence[Any]:
    """Where the ranks meet: (address, port), as the method or the environment says."""
    if isinstance(init_method, str) and init_method.startswith("tcp://"):
        host, _, port = init_method[len("tcp://") :].partition("?")[0].rpartition(":")
        return host, int(port) if port.isdigit() else None
    port = os.environ.get("MASTER_PORT", "")
    return os.environ.get("MASTER_ADDR"), int(port) if port.isdigit() else None
