"""Where the time of a rank goes, told apart from the time in which it waits for the others.

In synchronous training every rank takes the same time for a step: who is slow shows only in what
is left when the waiting is taken away. An adapter says where a rank waits, and calls `beat` once a
step; what that leaves to do is done by native functions where there can be any (clocks.py). Once a
second one event tells of all beats since (`pace`, see store/rows.h). Nothing of this is in place in
a job of one process.
"""

import functools
import gc
import os
import sys
from _thread import get_ident, get_native_id
from time import perf_counter_ns, thread_time_ns
from typing import Any, Dict, Optional, Tuple

from paramedic.adapters.common.clocks import MAX_BEATS, Clocks, State
from paramedic.adapters.common.profile import Kinds, Profile
from paramedic.adapters.common.session import Session
from paramedic.adapters.common.source import Source

REPORT_NS = 1_000_000_000
# Threads that are looked at, once a second, 15 µs each; and the part of the training thread's time
# that one has to compute for it to be one that computes with it.
THREADS_MAX = 32
WORKER_SHARE = 0.3
# A collection of garbage that takes longer is told with the line at which it happened.
LONG_GC_NS = 5_000_000


class Pace:
    """The clocks of the thread that trains."""

    def __init__(self, session: Session, source: Source, kinds: Kinds) -> None:
        self._session = session
        self._source = source
        self._tap = session.tap("pace")
        self._profile = Profile(session, source, self, kinds)
        self._wrapped = False
        self._state = State()
        # None: there can be no native functions, or not yet.
        self._clocks: Optional[Clocks] = None
        self._reset()
        session.on_open.append(self._begin)
        session.on_fork.append(self._reset)

    @property
    def is_waiting(self) -> bool:
        """Whether the training thread waits; asked by the profile's thread."""
        return bool(self._state.waiting)

    def is_connected(self) -> bool:
        """Whether the ranks have met."""
        return True

    def is_validating(self) -> bool:
        """Whether an evaluation is going on; called by the profile's thread, as the next one."""
        return False

    def waits_at(self, kind: str) -> bool:
        """Whether a thread that stands still at this kind of work waits for the other ranks."""
        return False

    def _wrap(self) -> None:
        """Puts in place what tells of waiting; called once, in a job of several ranks."""

    def _threads(self) -> Dict[str, Any]:
        """How many threads the framework computes with, and who says so."""
        return {"threads": 1}

    def _reset(self) -> None:
        state = self._state
        state.on = state.waiting = state.waited_ns = state.backward_cpu_ns = 0
        state.in_backward = state.pass_cpu_ns = state.passes = 0
        state.beats = state.count = state.beat_ns = state.beat_waited_ns = 0
        self._gc_ns = 0
        self._gc_count = 0
        self._gc_start = 0
        self._reported_ns = 0
        self._schedule: Tuple[int, int] = (0, 0)
        # By the number of the thread: as `_schedule` told it last.
        self._workers: Dict[str, Tuple[int, int]] = {}

    def _begin(self) -> None:
        """The ring is open: in a job of several ranks the clocks start."""
        if self._session.world_size < 2 or not self._tap.on:
            return
        try:
            if not self._wrapped:
                self._wrapped = True
                gc.callbacks.append(self._collecting)
                self._clocks = self._make_clocks()
                self._wrap()
            self._state.thread = self._session.thread
            self._state.on = 1
        except Exception as error:
            self._tap.fail(error)

    def _make_clocks(self) -> Optional[Clocks]:
        try:
            return Clocks(self._state, self.beat)
        except Exception:
            # Nothing is lost but some microseconds a step.
            return None

    def waited(self, ns: int) -> None:
        """The thread that trains has waited for other ranks so long."""
        self._state.waited_ns += ns

    def _timed(self, genuine: Any) -> Any:
        """`genuine`, whose time is waiting."""
        session, state = self._session, self._state

        @functools.wraps(genuine)
        def wait(*args: Any, **kwargs: Any) -> Any:
            if state.waiting or session.thread != get_ident():
                return genuine(*args, **kwargs)
            state.waiting = start = perf_counter_ns()
            try:
                return genuine(*args, **kwargs)
            finally:
                state.waiting = 0
                state.waited_ns += perf_counter_ns() - start

        return wait

    def beat(self) -> None:
        """A step of the job; all ranks count the same."""
        now, state = perf_counter_ns(), self._state
        if not state.on or self._session.thread != get_ident():
            return
        try:
            state.thread = get_ident()
            waited = state.waited_ns
            if state.beats:
                at, wait = state.count, waited - state.beat_waited_ns
                state.self_us[at] = (now - state.beat_ns - wait) // 1000
                state.wait_us[at] = wait // 1000
                state.count = at + 1
            else:
                self._first_beat(now)
            state.beats += 1
            if now >= state.report_ns or state.count >= MAX_BEATS:
                self._report(now)
                # What we took ourselves is no part of the next beat.
                now = perf_counter_ns()
            state.beat_ns, state.beat_waited_ns = now, waited
        except Exception as error:
            state.on = 0
            self._tap.fail(error)

    def _first_beat(self, now: int) -> None:
        self._clear(now)
        self._schedule = _schedule()
        self._workers_delay(0)
        self._profile.start()
        self._session.event("pace_begins", self._standing())

    def _clear(self, now: int) -> None:
        self._state.count = self._state.backward_cpu_ns = 0
        self._gc_ns = self._gc_count = 0
        self._reported_ns = now
        self._state.report_ns = now + REPORT_NS

    def _report(self, now: int) -> None:
        state = self._state
        cpu, delay = _schedule()
        own_cpu, own_delay = cpu - self._schedule[0], delay - self._schedule[1]
        fields: Dict[str, Any] = {
            "first": state.beats - state.count,
            "self_us": state.self_us[: state.count],
            "wait_us": state.wait_us[: state.count],
            "wall_ms": _ms(now - self._reported_ns),
            "cpu_ms": _ms(own_cpu),
            "delay_ms": _ms(max(own_delay, self._workers_delay(own_cpu))),
            "backward_cpu_ms": _ms(state.backward_cpu_ns),
            "gc_ms": _ms(self._gc_ns),
            "gc_count": self._gc_count,
        }
        fields.update(self._profile.take())
        self._session.event("pace", fields)
        self._schedule = cpu, delay
        self._clear(now)

    def _workers_delay(self, cpu: int) -> int:
        """How long a thread that computes with this one wanted a core and had none, since the last
        call: at the end of each loop that they share, all wait for the last one. ns.

        Args:
            cpu: what the training thread has computed since then.
        """
        if self._threads()["threads"] < 2:
            return 0
        own, longest = str(get_native_id()), 0
        workers: Dict[str, Tuple[int, int]] = {}
        for name in os.listdir("/proc/self/task")[:THREADS_MAX]:
            if name == own:
                continue
            workers[name] = now = _schedule(name)
            before = self._workers.get(name)
            if before is not None and now[0] - before[0] >= WORKER_SHARE * cpu:
                longest = max(longest, now[1] - before[1])
        self._workers = workers
        return longest

    def _standing(self) -> Dict[str, Any]:
        """What this process may use of the machine."""
        fields: Dict[str, Any] = {
            "cores": _cores(),
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "ranks_here": _ranks_here(self._session.world_size),
        }
        fields.update(self._threads())
        return fields

    def _collecting(self, phase: str, info: Dict[str, Any]) -> None:
        if not self._state.on or self._session.thread != get_ident():
            return
        now = perf_counter_ns()
        if phase == "start":
            self._gc_start = now
        elif self._gc_start:
            took, self._gc_start = now - self._gc_start, 0
            self._gc_ns += took
            self._gc_count += 1
            if took > LONG_GC_NS:
                self._profile.collected(took, sys._getframe(1))


def _ranks_here(world: int) -> int:
    """How many ranks run on this machine, as far as the launcher tells; else all."""
    try:
        return min(world, int(os.environ["LOCAL_WORLD_SIZE"]))
    except (KeyError, ValueError):
        return world


def _cores() -> int:
    """How many cores this process may use: by its affinity, and by its control group's limit."""
    cores = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return min(cores, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return cores  # none, or "max"


def _ms(ns: int) -> float:
    return round(ns / 1e6, 2)


def _schedule(thread: str = "") -> Tuple[int, int]:
    """(ns on a core, ns in which it wanted one and had none) of a thread of this process, by
    default the calling one; proc(5)."""
    path = f"/proc/self/task/{thread}/schedstat" if thread else "/proc/thread-self/schedstat"
    try:
        with open(path, encoding="ascii") as file:
            cpu, delay = file.read().split()[:2]
        return int(cpu), int(delay)
    except (OSError, ValueError):
        return (0, 0) if thread else (thread_time_ns(), 0)
