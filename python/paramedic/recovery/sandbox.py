"""A copy of this process that can compute, and do nothing else.

A fork has all objects of the crashed job. What it shares with it is taken away before anything
runs: memory that both would write to becomes private, and a filter in the kernel (seccomp) ends
the copy at the first system call that is not about its own memory, the time or waiting. So no
file, socket, pipe, device, process or thread is touched, whatever the code does. Linux on x86-64
alone; everywhere else, and where the copy is ended or takes too long, there is no answer.
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
from typing import Any, Callable, List, Optional, Tuple

LIMIT_S = 2.0
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


def run(work: Callable[[], str]) -> Optional[str]:
    """What `work` answers in the copy, or None where it cannot be told."""
    if not _can_fork():
        return None
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the other threads are not copied is meant so
        pid = os.fork()
    if pid == 0:
        _in_the_copy(work, writing)
    os.close(writing)
    try:
        return _answer(reading)
    finally:
        os.close(reading)
        _end(pid)


def _can_fork() -> bool:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    # Whoever counts its children must not be told of one that it does not know.
    handler = signal.getsignal(signal.SIGCHLD)
    if callable(handler) and not str(getattr(handler, "__module__", "")).startswith("torch."):
        return False
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is None or not cuda.is_initialized()


def _answer(reading: int) -> Optional[str]:
    deadline = time.monotonic() + LIMIT_S
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
        return None
    text = os.read(reading, MAX_ANSWER_BYTES)
    return text.decode("utf-8", "replace") if text else None


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
