"""A thread that looks, twice a second, whether the job goes on.

What progress is the adapter says: a collective entered or left, a batch, a step. A loop in Python
that keeps the processor busy is none: how busy it was is told, so that whoever reads it can tell
idle from working. A stall is told after 1.5 s, and again at growing distances with the newest
stack. While there is progress a look costs some microseconds, and nothing is told.
"""

import sys
import threading
import time
from _thread import get_ident
from typing import Any, Callable, Dict, Optional, Tuple

from paramedic.adapters.common.session import Session
from paramedic.adapters.common.source import Source
from paramedic.adapters.common.stacks import stack_of

LOOK_S = 0.5
FIRST_S = 1.5
# A stall of so many seconds is told again; then each one half longer than the last.
TELL_AT_S = (FIRST_S, 3.0, 5.0, 8.0, 12.0, 20.0)
TELL_LATER_FACTOR = 1.5


class Watched:
    """What a framework's adapter knows of a thread that does not come forward; called by ours."""

    def progress(self) -> Tuple[int, ...]:
        """Numbers of which one changes when the job goes on."""
        return ()

    def begin(self) -> None:
        """A stall was told: what follows until `end` may cost more."""

    def end(self) -> None:
        """The job goes on, or ends."""

    def tell(self, thread: int, frame: Any) -> Dict[str, Any]:
        """Fields of `stalled`: waiting, phase, evaluating, torch_calls_since; see store/rows.h."""
        raise NotImplementedError

    def flight(self) -> Dict[str, Any]:
        """What the framework's own recorder has; may take long."""
        return {}


class Stalls:
    """Watches over the thread that began the job, or trains."""

    def __init__(self, session: Session, source: Source, watched: Watched) -> None:
        self._session = session
        self._source = source
        self._subject = watched
        self._tap = session.tap("stalls")
        self._thread: Optional[threading.Thread] = None
        self._ended = threading.Event()
        self._watched = 0
        self._cpu_clock: Optional[Callable[[], float]] = None
        session.on_fork.append(self._reset)

    def start(self) -> None:
        """Watches the calling thread from now on; once a process."""
        if self._thread is not None or not self._tap.on:
            return
        self._watched = get_ident()
        self._cpu_clock = _cpu_clock(self._watched)
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._ended,), name="paramedic-stalls", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """The process ends."""
        self._ended.set()

    def _reset(self) -> None:
        # Threads do not live on in a forked child.
        self._thread = None
        self._subject.end()

    def _run(self, ended: threading.Event) -> None:
        try:
            self._look_until(ended)
        except Exception as error:
            self._tap.fail(error)
        self._subject.end()

    def _look_until(self, ended: threading.Event) -> None:
        seen, stall = self._subject.progress(), _Stall()
        while not ended.wait(LOOK_S):
            now_seen = self._subject.progress()
            if now_seen == seen:
                if stall.is_due():
                    self._tell(stall)
                continue
            if stall.told:
                self._subject.end()
                self._session.tell("resumed", {"stalled_ms": stall.lasted_s() * 1e3})
            seen, stall = now_seen, _Stall()
            stall.cpu_s = self._cpu_s()

    def _cpu_s(self) -> float:
        thread = self._session.thread
        if thread and thread != self._watched and thread in sys._current_frames():
            self._watched = thread
            self._cpu_clock = _cpu_clock(thread)
        try:
            return self._cpu_clock() if self._cpu_clock is not None else 0.0
        except OSError:  # the thread has ended
            return 0.0

    def _tell(self, stall: "_Stall") -> None:
        session, cpu_s = self._session, self._cpu_s()
        frame = sys._current_frames().get(self._watched)
        fields: Dict[str, Any] = {
            "since_ns": stall.since_ns,
            "stalled_ms": stall.lasted_s() * 1e3,
            "cpu_ms": max(0.0, cpu_s - stall.cpu_s) * 1e3,
            "stack": stack_of(frame, self._source),
            "flight": {},
        }
        fields.update(self._subject.tell(self._watched, frame))
        del frame
        if self._ended.is_set():
            return
        fields["flight"] = self._subject.flight()
        session.tell("stalled", fields)
        stall.cpu_s = cpu_s
        stall.tell_next()
        self._subject.begin()


class _Stall:
    """A time without progress, from the last look at which there was some."""

    def __init__(self) -> None:
        self.since_ns = time.time_ns()
        self._start = time.monotonic()
        self._next = 0
        self._due_s = FIRST_S
        self.told = False
        self.cpu_s = 0.0

    def lasted_s(self) -> float:
        return time.monotonic() - self._start

    def is_due(self) -> bool:
        return self.lasted_s() >= self._due_s

    def tell_next(self) -> None:
        """It was told now."""
        self.told = True
        self._next += 1
        if self._next < len(TELL_AT_S):
            self._due_s = TELL_AT_S[self._next]
        else:
            self._due_s = max(self._due_s, self.lasted_s()) * TELL_LATER_FACTOR


def _cpu_clock(thread: int) -> Optional[Callable[[], float]]:
    """Reads the processor time of a thread that is alive now; it may end later."""
    try:
        clock = time.pthread_getcpuclockid(thread)
    except (AttributeError, OSError):
        return None
    return lambda: time.clock_gettime(clock)
