"""Which lines of the job take the time of a rank, by looking at its stack some times a second.

A thread of our own looks: it needs the interpreter's lock for some 30 µs each time, less than a
thousandth of the time. It begins when the ranks are connected, when a process has other
threads anyway, and is no thread of `threading`: the job does not see it in its lists.
"""

import _thread
import re
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from paramedic.adapters.common.session import Session
from paramedic.adapters.common.source import Source, place, where

if TYPE_CHECKING:
    from paramedic.adapters.common.pace import Pace

# Looks are 60 to 120 ms apart, unevenly, so that they do not fall in step with the job.
LOOK_NS, SPREAD_NS = 60_000_000, 60_000_000
LINES_MAX = 64  # kept apart between two reports
LINES_TOLD = 8
FRAMES_MAX = 100

# Names of functions that are run now and then, and not as a part of every step.
_EVALUATION = re.compile(r"_?(run_|do_)?(eval|valid|test(_|$))")

# Names of functions that bring data in a loop without a DataLoader.
_READING = re.compile(
    r"_*((load|read|fetch|decode|augment|parse|tokeni[sz]e|collate)(_|$)"
    r"|(next|get|make|prepare|build)_.*(batch|sample|record|example|image|file|item|data)"
    r"|batches$|getitem__$)"
)

Line = Tuple[str, str, int, str]  # kind, file, line, function
Kinds = Tuple[Tuple[str, str], ...]  # part of a file's path, what is done there


class Profile:
    """Counts what the training thread is seen at."""

    def __init__(self, session: Session, source: Source, pace: "Pace", kinds: Kinds) -> None:
        self._source = source
        self._pace = pace
        self._files = kinds
        self._tap = session.tap("profile")
        self._stop: Any = None
        self._thread = 0
        self._state_path = ""
        self._kinds: Dict[str, str] = {}
        self._clear()
        session.on_close.append(self.stop)
        session.on_fork.append(self._forget)

    def start(self) -> None:
        """Begins to look at the calling thread, in a job whose ranks are connected."""
        if self._stop is not None or not self._pace.is_connected():
            return
        self._thread = _thread.get_ident()
        self._state_path = f"/proc/self/task/{_thread.get_native_id()}/stat"
        self._stop = _thread.allocate_lock()
        self._stop.acquire()
        _thread.start_new_thread(self._run, (self._stop,))

    def stop(self) -> None:
        """The thread ends at its next look."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop.release()

    def _forget(self) -> None:
        """After a fork: the thread is not there any more."""
        self._stop = None
        self._clear()

    def _clear(self) -> None:
        self._looks = 0
        self._waits = 0
        # Looks at a line; and those of them at which it stood still: a sleep, or a read.
        self._lines: Dict[Line, List[int]] = {}
        self._gc: Dict[Line, int] = {}

    def take(self) -> Dict[str, Any]:
        """What was seen since the last call, as fields of an event."""
        looks, waits, lines, collections = self._looks, self._waits, self._lines, self._gc
        self._clear()
        most = sorted(lines.items(), key=lambda item: -item[1][0])[:LINES_TOLD]
        return {
            "looks": looks,
            "waits": waits,
            "lines": [dict(_told(line), looks=n, still=still) for line, (n, still) in most],
            "gc_lines": [
                dict(_told(line), ms=round(ns / 1e6, 2)) for line, ns in collections.items()
            ],
        }

    def collected(self, took_ns: int, frame: Any) -> None:
        """Garbage was collected for long while `frame` ran. Called by the training thread."""
        line = ("gc", *place(self._source.frame(frame)))
        if line in self._gc or len(self._gc) < LINES_TOLD:
            self._gc[line] = self._gc.get(line, 0) + took_ns

    def _run(self, stop: Any) -> None:
        try:
            while not stop.acquire(timeout=(LOOK_NS + perf_counter_ns() % SPREAD_NS) / 1e9):
                if self._tap.on:
                    self._look()
        except Exception:
            # Nothing can be told from this thread: the ring belongs to the other one.
            self._tap.on = False

    def _look(self) -> None:
        self._looks += 1
        if self._pace.is_waiting:
            self._waits += 1
            return
        frame = sys._current_frames().get(self._thread)
        if frame is None:
            return
        innermost = frame.f_code.co_filename
        user = self._source.frame(frame)
        kind = self._kind(frame)
        still = self._stands_still()
        if still and self._pace.waits_at(self._kind_of(innermost)):
            self._waits += 1
            return
        line = (kind, *place(user))
        counts = self._lines.get(line)
        if counts is None:
            if len(self._lines) >= LINES_MAX:
                return
            counts = self._lines[line] = [0, 0]
        counts[0] += 1
        counts[1] += still

    def _kind(self, frame: Any) -> str:
        """What the innermost frame that says so is doing."""
        if self._pace.is_validating():
            return "validation"
        found = ""
        for _ in range(FRAMES_MAX):
            if frame is None:
                break
            name = frame.f_code.co_name
            if _EVALUATION.match(name):
                return "validation"
            if not found:
                found = self._kind_of(frame.f_code.co_filename)
                if not found and _READING.match(name):
                    found = "data"
            frame = frame.f_back
        return found or "host"

    def _kind_of(self, filename: str) -> str:
        kind = self._kinds.get(filename)
        if kind is None:
            kind = next((kind for part, kind in self._files if part in filename), "")
            self._kinds[filename] = kind
        return kind

    def _stands_still(self) -> bool:
        """Whether the thread sleeps, in the kernel's eyes."""
        try:
            with open(self._state_path, encoding="utf-8", errors="replace") as file:
                return file.read(200).rpartition(")")[2].split(None, 1)[0] in "SD"
        except (OSError, IndexError):
            return False


def _told(line: Line) -> Dict[str, Any]:
    return dict(where(line[1:]), kind=line[0])
