"""A copy of this process that can compute, and do nothing else.

A fork has all objects of the crashed job. What it shares with it is taken away before anything
runs: memory that both would write to becomes private, and a filter in the kernel (seccomp) ends
the copy at the first system call that is not about its own memory, the time or waiting. So no
file, socket, pipe, device, process or thread is touched, whatever the code does. Linux on x86-64
alone; everywhere else, and where the copy is ended or takes too long, there is no answer.

How long is too long goes by the copy's own time: that of the processors, and that in which it waits
for something. What it waits for a processor does not count, so that a busy machine refuses nothing
that a quiet one accepts.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import select
import signal
import struct
import sys
import time
import warnings
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

LIMIT_S = 2.0  # of the copy's own time
MAX_WAIT_S = 60.0  # by the clock, whatever the copy is kept from
_LOOK_MS = 20
MAX_SHARED_BYTES = 1 << 30  # of memory that is made private
MAX_ANSWER_BYTES = 4096  # what a pipe takes at once
MAX_MAPPINGS = 100_000
_MORE_MEMORY = 1 << 30  # that the copy may take in addition

_PROT_READ_WRITE = 3
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS = 1, 2, 0x10, 0x20
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_X86_64 = 0xC000003E
_WRITE, _MMAP = 1, 9
_M_TRIM_THRESHOLD = -1
# mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn sched_yield mremap madvise nanosleep
# getpid exit gettimeofday getrusage sysinfo gettid futex sched_getaffinity clock_gettime
# clock_getres clock_nanosleep exit_group getcpu getrandom rseq
_ALLOWED = {10, 11, 12, 13, 14, 15, 24, 25, 28, 35, 39, 60, 96, 98, 99, 186, 202, 204}
_ALLOWED |= {228, 229, 230, 231, 309, 318, 334}


class Answer(NamedTuple):
    """How a copy has ended."""

    text: Optional[str]  # what `work` answers, None where it cannot be told
    why: str  # why it cannot, in words that follow "because"
    took_s: float  # of the copy's own time


def run(work: Callable[[], str], limit_s: float = LIMIT_S) -> Answer:
    """What `work` answers in the copy, which may take `limit_s` of its own time."""
    if not _can_fork():
        return Answer(None, "this process cannot be copied", 0.0)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the other threads are not copied is meant so
        pid = os.fork()
    if pid == 0:
        _in_the_copy(work, writing)
    os.close(writing)
    patience = Patience(limit_s, time.monotonic())
    try:
        is_ready = _has_answered(reading, pid, patience)
        text = os.read(reading, MAX_ANSWER_BYTES) if is_ready else b""
    finally:
        os.close(reading)
        _end(pid)
    if not is_ready:
        return Answer(None, patience.over, patience.took_s)
    answer = text.decode("utf-8", "replace") if text else None
    return Answer(answer, "it may do more than compute", patience.took_s)


def _can_fork() -> bool:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    # Whoever counts its children must not be told of one that it does not know.
    handler = signal.getsignal(signal.SIGCHLD)
    if callable(handler) and not str(getattr(handler, "__module__", "")).startswith("torch."):
        return False
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is None or not cuda.is_initialized()


class Patience:
    """How long a copy is waited for."""

    def __init__(self, limit_s: float, now_s: float) -> None:
        self._limit_s = limit_s
        self._began_s = self._looked_s = now_s
        self._worked_s = self._waited_s = 0.0
        self.over = ""  # why it is not waited for any longer

    @property
    def took_s(self) -> float:
        """The copy's own time so far."""
        return self._worked_s + self._waited_s

    def look(self, now_s: float, worked_s: float, is_asleep: bool) -> bool:
        """Whether to wait on for a copy that has had `worked_s` of processors by now."""
        if is_asleep and worked_s == self._worked_s:
            self._waited_s += now_s - self._looked_s
        self._worked_s, self._looked_s = worked_s, now_s
        if self.took_s > self._limit_s:
            self.over = f"it takes more than {self._limit_s:g} s"
        elif now_s - self._began_s > MAX_WAIT_S:
            self.over = f"it has not come to an end in {MAX_WAIT_S:.0f} s"
        return not self.over


def _has_answered(reading: int, pid: int, patience: Patience) -> bool:
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while not poll.poll(_LOOK_MS):
        if not _look_at(pid, patience):
            return False
    _look_at(pid, patience)
    return True


def _look_at(pid: int, patience: Patience) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            state, *rest = file.read().rpartition(")")[2].split()
    except OSError:
        return True  # it has ended, and somebody who waits for any child was quicker
    ticks = int(rest[10]) + int(rest[11])  # proc(5): utime and stime
    # A dead one whose end of the pipe another child has inherited waits for good.
    is_asleep = state in ("S", "Z")
    return patience.look(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), is_asleep)


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except OSError:
        pass  # somebody who waits for any child was quicker


def _in_the_copy(work: Callable[[], str], writing: int) -> None:
    try:
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)  # the threads of its pool were not copied
        _confine(writing)
        os.write(writing, work().encode("utf-8", "replace")[:MAX_ANSWER_BYTES])
    except BaseException:
        pass
    finally:
        os._exit(0)


def _confine(writing: int) -> None:
    """From here on nothing outside of this process can be changed or asked."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # where memory runs out, the copy goes and not the job
    with open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "mallopt"):
        # Before a thread's memory shrinks, glibc reads a file of /proc, which would end the copy.
        library.mallopt(_M_TRIM_THRESHOLD, 0x7FFFFFFF)
    for begin, length in _shared_mappings():
        _make_private(library, begin, length)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + _MORE_MEMORY, most))
    program = _filter(writing)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if library.prctl(_SECCOMP, _FILTER, ctypes.create_string_buffer(header, len(header)), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def _shared_mappings() -> List[Tuple[int, int]]:
    """Of memory that other processes would see written: (address, bytes)."""
    found: List[Tuple[int, int]] = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        lines = file.readlines(MAX_MAPPINGS * 100)
    for line in lines:
        parts = line.split(None, 5)
        if "w" not in parts[1] or not parts[1].endswith("s"):
            continue
        name = parts[5].strip() if len(parts) > 5 else ""
        if name.startswith("/dev/") and not name.startswith(("/dev/shm/", "/dev/zero")):
            raise OSError("the memory of a device is mapped")
        begin, _, end = parts[0].partition("-")
        found.append((int(begin, 16), int(end, 16) - int(begin, 16)))
    if sum(length for _, length in found) > MAX_SHARED_BYTES:
        raise OSError("too much memory is shared")
    return found


def _make_private(library: Any, begin: int, length: int) -> None:
    content = ctypes.string_at(begin, length)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    )
    flags = _MAP_PRIVATE | _MAP_FIXED | _MAP_ANONYMOUS
    if library.mmap(begin, length, _PROT_READ_WRITE, flags, -1, 0) != begin:
        raise OSError(ctypes.get_errno(), "mmap")
    ctypes.memmove(begin, content, length)


def _filter(writing: int) -> bytes:
    """A program of classic BPF: the answer is written, memory is got, the clock is read."""

    def load(offset: int) -> bytes:
        return struct.pack("HBBI", 0x20, 0, 0, offset)

    def unless_equal(value: int, skip: int) -> bytes:
        return struct.pack("HBBI", 0x15, 0, skip, value)

    def end(verdict: int) -> bytes:
        return struct.pack("HBBI", 0x06, 0, 0, verdict)

    number, architecture, first, fourth = 0, 4, 16, 40
    steps = [load(architecture), unless_equal(_X86_64, 1), load(number)]
    steps.insert(2, struct.pack("HBBI", 0x05, 0, 0, 1))  # over the end that follows
    steps.insert(3, end(_KILL))
    # Memory of its own alone: anonymous, and shared with nobody.
    mask = struct.pack("HBBI", 0x54, 0, 0, _MAP_ANONYMOUS | _MAP_SHARED)
    steps += [unless_equal(_MMAP, 5), load(fourth), mask]
    steps += [unless_equal(_MAP_ANONYMOUS, 1), end(_ALLOW), end(_KILL)]
    steps += [unless_equal(_WRITE, 4), load(first), unless_equal(writing, 1)]
    steps += [end(_ALLOW), end(_KILL)]
    for allowed in sorted(_ALLOWED):
        steps += [unless_equal(allowed, 1), end(_ALLOW)]
    return b"".join([*steps, end(_KILL)])
