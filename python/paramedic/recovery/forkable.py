"""Whether a frozen copy of this process, made by fork, could go on in its place.

A fork keeps one thread, shares open files and shared memory with the process that it was made
from, and has no use of an accelerator. Each of these would make the copy hang, or go on with
something else than what there was: then there is no snapshot, and the reason is told.
"""

import ctypes
import functools
import gc
import os
import re
import select
import stat
import sys
import threading
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from paramedic.recovery.effects import OpenFile

# Loaded libraries of OpenMP's run time. Their threads do not survive a fork, but can be ended
# before it; the next parallel region starts new ones.
_OPENMP = re.compile(r"/lib(?:g|i|)omp[^/]*\.so")
_BATCH = "/dev/shm/torch_"
# The copy may grow as large as the process is.
_MEMORY_SHARE_MAX = 0.5


class Batch(NamedTuple):
    """Memory that a worker of a loader made; now the copy alone shares it with the process."""

    start: int
    size: int
    checksum: int

    @classmethod
    def at(cls, start: str, end: str) -> "Batch":
        """A line of /proc/self/maps."""
        first = int(start, 16)
        size = int(end, 16) - first
        return cls(first, size, _checksum(first, size))

    def check(self) -> None:
        """Raises OSError where the process has written to it since."""
        if _checksum(self.start, self.size) != self.checksum:
            raise OSError("a batch in shared memory was changed")


def _checksum(start: int, size: int) -> int:
    return zlib.crc32((ctypes.c_char * size).from_address(start))


class Forkable:
    """Looks at this process; made when the framework is imported, before it opens anything."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        # Pipes and sockets that were there from the start belong to whoever started the job.
        self._inherited = {fd for fd, _ in _descriptors()}
        self._openmp: Dict[str, Any] = {}
        # Threads of torch's own pool, which it makes anew in the child of a fork.
        self._pool: Set[str] = set()
        self._batches: List[Batch] = []
        self._wrap_set_num_threads(torch)

    def obstacle(self, own_pages: str, own_children: Set[int]) -> str:
        """Why no copy could go on, "" where nothing is in the way."""
        return (
            self._device()
            or _threads()
            or _children(own_children)
            or self._open_ends()
            or self._shared_memory(own_pages)
            or _memory()
        )

    def end_pools(self) -> None:
        """Ends the threads of OpenMP; call right before the fork."""
        for library in self._openmp.values():
            pause = getattr(library, "omp_pause_resource_all", None)
            if pause is not None:
                pause(1)  # omp_pause_soft: settings are kept

    def strange_threads(self) -> str:
        """Called after the fork: threads still here were not ended for it, so the copy lacks them.

        Returns:
            A reason, or "".
        """
        known = {str(thread.native_id) for thread in threading.enumerate()}
        strange = set(os.listdir("/proc/self/task")) - known - self._pool
        strange.discard(str(os.getpid()))
        return f"{len(strange)} threads of a library would be lost" if strange else ""

    def files(self, own_pages: str) -> List[OpenFile]:
        """The regular files that are open now, those of the run itself left out."""
        found = []
        for fd, flags in _descriptors():
            if os.readlink(f"/proc/self/fd/{fd}").startswith(own_pages):
                continue
            file = OpenFile.of(fd, flags)
            if file is not None:
                found.append(file)
        return found

    def _wrap_set_num_threads(self, torch: Any) -> None:
        genuine = torch.set_num_threads

        @functools.wraps(genuine)
        def set_num_threads(number: int) -> None:
            before = set(os.listdir("/proc/self/task"))
            genuine(number)
            self._pool |= set(os.listdir("/proc/self/task")) - before

        torch.set_num_threads = set_num_threads

    def _device(self) -> str:
        torch = self._torch
        if torch.cuda.is_initialized():
            return "a process that uses CUDA cannot be forked"
        xpu = getattr(torch, "xpu", None)
        if xpu is not None and xpu.is_initialized():
            return "a process that uses an accelerator cannot be forked"
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return "the connections between ranks cannot be kept"
        return ""

    def _open_ends(self) -> str:
        tracker = _tracker_fd()
        for fd, _ in _descriptors():
            mode = os.fstat(fd).st_mode
            if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) or fd in (1, 2, tracker):
                continue
            if fd == 0 and not _has_ended(fd):
                return "its standard input is a pipe that may still bring something"
            if fd not in self._inherited:
                return "it has an open pipe or connection"
        return ""

    def batches(self) -> "List[Batch]":
        """What came from workers of a loader that are gone, as `obstacle` found it."""
        return self._batches

    def _shared_memory(self, own_pages: str) -> str:
        self._batches = []
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                fields = line.split(None, 5)
                path = fields[5].rstrip("\n") if len(fields) > 5 else ""
                if fields[1][1] == "w" and fields[1][3] == "s":
                    if path.startswith(_BATCH):
                        self._batches.append(Batch.at(*fields[0].split("-")))
                    elif not path.startswith(own_pages) and not _is_semaphore(path):
                        return f"it shares memory with others ({path or 'anonymous'})"
                elif _OPENMP.search(path) and path not in self._openmp:
                    self._openmp[path] = ctypes.CDLL(path)
        return ""


def _descriptors() -> List[Tuple[int, int]]:
    """Open descriptors with their flags, the one that lists them left out."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            with open(f"/proc/self/fdinfo/{name}", encoding="ascii") as info:
                text = info.read()
            flags = int(text.split("flags:", 1)[1].split()[0], 8)
            os.fstat(int(name))
        except (OSError, ValueError, IndexError):
            continue
        found.append((int(name), flags))
    return found


def _threads() -> str:
    for thread in threading.enumerate():
        if thread is threading.main_thread():
            continue
        # The monitor of tqdm only paces how often a bar is drawn; what it holds must be free.
        if type(thread).__name__ != "TMonitor" or not _is_free(thread):
            return f"the thread {thread.name} would be lost"
    return ""


def _is_free(monitor: Any) -> bool:
    for lock in monitor.tqdm_cls.get_lock().locks:
        if not lock.acquire(False):
            return False
        lock.release()
    return True


def _tracker() -> Optional[Any]:
    module = sys.modules.get("multiprocessing.resource_tracker")
    return getattr(module, "_resource_tracker", None)


def _tracker_fd() -> int:
    fd = getattr(_tracker(), "_fd", None)
    return fd if isinstance(fd, int) else -1


def _children(own: Set[int]) -> str:
    known = {str(pid) for pid in own} | {str(getattr(_tracker(), "_pid", None))}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as children:
                others = set(children.read().split()) - known
        except OSError:
            return "its child processes cannot be listed"
        if others:
            return f"it has {len(others)} child processes"
    return ""


def _has_ended(fd: int) -> bool:
    """Whether nothing more can come out of a pipe."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    events = dict(poll.poll(0)).get(fd, 0)
    return bool(events & select.POLLHUP) and not events & select.POLLIN


def _is_semaphore(path: str) -> bool:
    """A lock of multiprocessing: without children nobody else has it, see `free_locks`."""
    return path.startswith("/dev/shm/sem.")


def free_locks() -> None:
    """Releases the locks of multiprocessing that a process died with: they lie in shared memory."""
    module = sys.modules.get("multiprocessing.synchronize")
    if module is None:
        return
    library = ctypes.CDLL(None)
    for lock in gc.get_objects():
        if not isinstance(lock, (module.Lock, module.RLock)):
            continue
        semaphore = lock._semlock
        if semaphore._count() == 0 and semaphore._get_value() == 0:
            library.sem_post(ctypes.c_void_p(semaphore.handle))


def _memory() -> str:
    with open("/proc/self/statm", encoding="ascii") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if resident > _MEMORY_SHARE_MAX * _available():
        return f"there is no room for a second copy of {resident >> 20} MiB"
    return ""


def _available() -> int:
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        available = next(int(line.split()[1]) for line in meminfo if line.startswith("MemAvail"))
    return min(available * 1024, _available_in_group())


def _available_in_group() -> int:
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
            most = int(limit.read())
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as current:
            return most - int(current.read())
    except (OSError, ValueError):
        return sys.maxsize
