"""What a coordinator of parameter servers sees of its workers.

A worker of a ParameterServerStrategy runs no Python of the job: the coordinator sends it functions,
one at a time, each from a thread of its own. How long each takes, and which one does not come back,
is seen there. Functions that are scheduled count as steps of the coordinator.
"""

import functools
import sys
import threading
import time
from typing import Any, Callable, Dict

from paramedic.adapters.tensorflow.session import Session

TELL_S = 1.0
MAX_WORKERS = 10_000


class Work:
    """What one worker did since the last telling, and what it does."""

    __slots__ = ("done", "since_ns", "spent_ns")

    def __init__(self) -> None:
        self.done = 0
        self.spent_ns = 0
        self.since_ns = 0  # wall clock at which it was given what it runs; 0 = nothing


class Closures:
    """Watches functions being sent to workers; told once a second while there are any."""

    def __init__(self, session: Session, scheduled: Callable[[], None]) -> None:
        self._session = session
        self._scheduled = scheduled
        self._tap = session.tap("scheduled functions")
        self._work: Dict[int, Work] = {}
        self._lock = threading.Lock()
        self._told_s = 0.0
        self._waits_since_ns = 0
        self.count = 0

    def watch(self) -> None:
        """Replaces what sends functions, and what waits for them."""
        module = "tensorflow.python.distribute.coordinator.cluster_coordinator"
        coordinators: Any = sys.modules[module]
        worker = coordinators.Worker
        worker._process_closure = self._wrapped_process(worker._process_closure)
        owner = coordinators.ClusterCoordinator
        owner.schedule = self._wrapped_schedule(owner.schedule)
        owner.join = self._wrapped_join(owner.join)

    def tell(self) -> None:
        """Records how the workers stand; any thread may call it."""
        task = self._session.task
        if task is None or not self._work:
            return
        first = task.workers[0] + (1 if task.type == "chief" else 0)
        with self._lock:
            self._told_s = time.monotonic()
            workers = [
                {
                    "rank": first + index,
                    "done": work.done,
                    "spent_ms": round(work.spent_ns / 1e6, 2),
                    "since_ns": work.since_ns,
                }
                for index, work in sorted(self._work.items())
            ]
            for work in self._work.values():
                work.done = work.spent_ns = 0
        fields = {"workers": workers, "waits_since_ns": self._waits_since_ns}
        self._session.tell("closures", fields)

    def _wrapped_process(self, genuine: Any) -> Any:
        @functools.wraps(genuine)
        def _process_closure(worker: Any, closure: Any) -> None:
            work = None
            if self._tap.on:
                try:
                    work = self._begin(worker.worker_index)
                except Exception as error:
                    self._tap.fail(error)
            if work is None:
                genuine(worker, closure)
                return
            start = time.perf_counter_ns()
            try:
                genuine(worker, closure)
            finally:
                self._end(work, time.perf_counter_ns() - start)

        return _process_closure

    def _begin(self, index: int) -> Any:
        with self._lock:
            work = self._work.get(index)
            if work is None and len(self._work) < MAX_WORKERS:
                work = self._work[index] = Work()
            if work is not None:
                work.since_ns = time.time_ns()
            return work

    def _end(self, work: Work, took_ns: int) -> None:
        try:
            with self._lock:
                self.count += 1
                work.done += 1
                work.spent_ns += took_ns
                work.since_ns = 0
            if time.monotonic() - self._told_s >= TELL_S:
                self.tell()
        except Exception as error:
            self._tap.fail(error)

    def _wrapped_schedule(self, genuine: Any) -> Any:
        @functools.wraps(genuine)
        def schedule(*args: Any, **kwargs: Any) -> Any:
            result = genuine(*args, **kwargs)
            if self._tap.on:
                self._scheduled()
            return result

        return schedule

    def _wrapped_join(self, genuine: Any) -> Any:
        @functools.wraps(genuine)
        def join(coordinator: Any) -> None:
            self._waits_since_ns = time.time_ns()
            try:
                genuine(coordinator)
            finally:
                self._waits_since_ns = 0

        return join
