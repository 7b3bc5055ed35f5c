"""What the taps of a process share: the ring, the step, and the rule that nothing raises.

A session belongs to the thread that first trains. Taps in other threads (DataParallel's replicas,
a server beside the training) do nothing, so that neither the step nor the ring needs a lock, and
the ring can be closed at exit without a thread being inside it. What belongs to no thread
(collectives, the watch over stalls) calls nothing but `tell` and the calls of the probe that any
thread may make; once it does, the ring's memory is kept to the end of the process.
"""

import atexit
import ctypes
import functools
import os
import sys
from _thread import get_ident
from typing import Any, Callable, Dict, List, Optional, Set

from paramedic import _probe

# More failures than this say nothing new.
MAX_NOT_CAPTURED = 100


class Tap:
    """A switch of one way to look into the job. The first error turns it off for good."""

    __slots__ = ("_session", "name", "on")

    def __init__(self, session: "Session", name: str) -> None:
        self._session = session
        self.name = name
        self.on = True

    def fail(self, error: BaseException) -> None:
        """Turns the tap off and says so once."""
        self.on = False
        if os.environ.get("PARAMEDIC_DEBUG"):
            import traceback

            traceback.print_exception(type(error), error, error.__traceback__)
        self._session.not_captured(self.name, f"{type(error).__name__}: {error}")


class Session(ctypes.Structure):
    """The state of one training process; made at attach, opened at the first sign of training. As a
    structure it is a paramedic_progress, whose numbers native functions write."""

    _fields_ = [("step", ctypes.c_int64), ("signs", ctypes.c_int64)]
    step: int
    # Batches, backward passes: that they grow says that the job goes on.
    signs: int

    def __init__(self, name: str, framework: Any) -> None:
        super().__init__()
        self._name = name
        self._framework = framework
        self.probe: Optional[_probe.Probe] = None
        self.off = False
        # Of the job, once the ring is open.
        self.rank = 0
        self.world_size = 1
        # Whether threads other than the one that trains may call the probe.
        self.shared = False
        # Of the thread that trains; 0 before the ring is open.
        self.thread = 0
        self.due = 0
        self.fit = -1
        # Nanoseconds of this step that we took for ourselves, captures apart.
        self.spent_ns = 0
        # While we fork ourselves: that child keeps what it knows and never trains.
        self.forking = False
        self.on_step_open: List[Callable[[], None]] = []
        self.on_open: List[Callable[[], None]] = []
        self.on_fit: List[Callable[[], None]] = []
        self.on_fork: List[Callable[[], None]] = []
        self.on_close: List[Callable[[], None]] = []
        self._told: Set[str] = set()
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self.close)

    def tap(self, name: str) -> Tap:
        """A new switch."""
        return Tap(self, name)

    def active(self) -> bool:
        """Whether the calling thread is the one that is watched; opens the ring at first."""
        if self.thread == get_ident():
            return True
        if self.off or self.thread:
            return False
        return self._open()

    def adopt_thread(self) -> None:
        """Takes over for the calling thread when the one that was watched has ended."""
        ended = self.thread not in sys._current_frames()
        if self.thread and self.thread != get_ident() and ended:
            self.thread = get_ident()

    def not_captured(self, what: str, why: str) -> None:
        """Says once that something cannot be seen."""
        if what in self._told or len(self._told) >= MAX_NOT_CAPTURED:
            return
        self._told.add(what)
        if self.probe is None:
            self.on_open.append(lambda: self._tell(what, why))
        else:
            self._tell(what, why)

    def _tell(self, what: str, why: str) -> None:
        self.tell("not_captured", {"what": what, "why": why[:500]})

    def tell(self, kind: str, fields: Dict[str, Any]) -> None:
        """Records an event; any thread may call it, before training has begun too."""
        probe = self.probe
        if probe is None:
            return
        if self.thread == get_ident():
            probe.flush()
        probe.tell(self.step, kind, fields)

    def event(self, kind: str, fields: Dict[str, Any]) -> None:
        """Records an event of the current step."""
        if self.probe is not None and self.thread == get_ident():
            self.probe.event(self.step, kind, fields)

    def flush(self) -> None:
        """Writes what is kept back; call where training may pause for long."""
        if self.probe is not None and self.thread == get_ident():
            self.probe.flush()

    def put_in_place(self, parts: Dict[str, Callable[[], Any]]) -> None:
        """Calls each part of an adapter by itself, so that one may fail; told when the ring opens,
        since nothing is written before the job trains."""
        for name, part in parts.items():
            try:
                part()
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                self.on_open.append(functools.partial(self.not_captured, name, why))

    def close(self) -> None:
        """Marks the ring as ended in good order, unless the thread that writes may still run."""
        probe, thread = self.probe, self.thread
        self.off = True
        for callback in self.on_close:
            callback()
        self.probe = None
        self.thread = 0
        if probe is None or thread not in (0, get_ident()):
            return
        if self.step > 0:  # the steps of a stretch were not told one by one
            probe.step_done(self.step - 1, 0, 0, 0)
        if self.shared:
            probe.flush()
            probe.finish()
        else:
            probe.close()

    def open_step(self) -> None:
        """Asks, once a step, what is due."""
        probe = self.probe
        self.due = 0
        if probe is not None:
            probe.flush()
            self.due = probe.due(_probe.MODE_TRAIN, self.step)
        for callback in self.on_step_open:
            callback()

    def open_ring(self, rank: int, world_size: int) -> bool:
        """Makes the ring, unless it is there: in a job of several ranks before it trains."""
        if self.probe is not None or self.off:
            return not self.off
        self.rank, self.world_size = rank, world_size
        self.probe, why = _probe.open_probe(rank, world_size)
        if self.probe is None:
            self.off = True
            if os.environ.get("PARAMEDIC_DEBUG"):
                sys.stderr.write(f"paramedic: no ring: {why}\n")
            return False
        version = str(self._framework.__version__)
        python = "{}.{}.{}".format(*sys.version_info[:3])
        self.tell("attached", {"framework": self._name, "version": version, "python": python})
        _close_in_multiprocessing(self.close)
        return True

    def _open(self) -> bool:
        if self._is_helper():
            self.off = True
            return False
        if self.probe is None and not self.open_ring(*self._rank()):
            return False
        self.thread = get_ident()
        self.open_step()
        for callback in self.on_open:
            callback()
        return True

    def _is_helper(self) -> bool:
        """Whether this process only helps another one: it gets no ring."""
        return False

    def _rank(self) -> "tuple[int, int]":
        return _probe.rank_from_env()

    def _after_fork(self) -> None:
        """The child's copy of the ring is off: a child that trains opens one of its own."""
        if self.forking:
            self.off = True
            return
        self.begin_anew(0)

    def begin_anew(self, step: int) -> None:
        """This process is another one now, at its step `step`: it opens a ring of its own."""
        self.probe = None
        self.shared = False
        self.thread = 0
        self.step = step
        self.due = 0
        self.fit = -1
        self.spent_ns = 0
        self._told = set()
        for callback in self.on_fork:
            callback()


def _close_in_multiprocessing(close: Callable[[], None]) -> None:
    """A process that multiprocessing made by a fork ends without the interpreter's own end."""
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        # The lowest priority: after what the job itself wants to be called.
        util.Finalize(None, close, exitpriority=-1000)
