#!/usr/bin/env python3
"""Starts the ranks of a job as if each had a machine of its own: in network namespaces that a
bridge joins, with links that can be limited or made long.

    ranks_apart.py --ranks 4 [--limit RANK=100mbit] [--delay RANK=20] -- python train.py

`--limit` lets no more through in either direction (tc tbf); `--delay` holds every packet for so
many milliseconds, in a process of ours, since not every kernel has netem. Nothing outside of the
namespaces changes, and all of it goes away with the processes. `--check` says whether this may be
done here: its exit code is 0 when it may.
"""

import argparse
import collections
import ctypes
import fcntl
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from typing import Deque, Dict, List, Tuple

NEW_NET = 0x40000000  # CLONE_NEWNET
SET_INTERFACE = 0x400454CA  # TUNSETIFF
TAP_WITHOUT_HEADER = 0x1002  # IFF_TAP | IFF_NO_PI
FRAME_BYTES_MAX = 65_536
FRAMES_MAX = 20_000  # in flight in one direction; what comes on top is lost, as on a real link
NETWORK = "10.77.0"
PORT = "29510"

libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *args: int) -> None:
    if getattr(libc, name)(*args) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def run(*command: str) -> None:
    """Runs `ip` or `tc`, which are seldom on the PATH of a user."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    subprocess.run(command, check=True, env={"PATH": path}, stdin=subprocess.DEVNULL)


def new_tap(name: str) -> int:
    """A network interface whose other end is the descriptor."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, SET_INTERFACE, struct.pack("16sH", name.encode(), TAP_WITHOUT_HEADER))
    return tap


def forward(one: int, other: int, delay_s: float) -> None:
    """Gives what one interface sends to the other one, `delay_s` later; does not return."""
    frames: Dict[int, Deque[Tuple[float, bytes]]] = {}
    to = {one: other, other: one}
    selector = selectors.DefaultSelector()
    for tap in to:
        frames[tap] = collections.deque()
        selector.register(tap, selectors.EVENT_READ)
    while True:
        due = [queue[0][0] for queue in frames.values() if queue]
        wait = max(0.0, min(due) - time.monotonic()) if due else None
        for key, _ in selector.select(wait):
            queue = frames[key.fd]
            try:
                while True:
                    frame = os.read(key.fd, FRAME_BYTES_MAX)
                    if len(queue) < FRAMES_MAX:
                        queue.append((time.monotonic() + delay_s, frame))
            except BlockingIOError:
                pass
        now = time.monotonic()
        for tap, queue in frames.items():
            while queue and queue[0][0] <= now:
                try:
                    os.write(to[tap], queue.popleft()[1])
                except OSError:
                    pass  # the interface is not up yet, or its queue is full: a lost packet


def long_link(rank: int, pid: int, delay_ms: float) -> int:
    """A process that joins rank's namespace to the bridge; its id."""
    here = new_tap(f"long{rank}")
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(f"/proc/{pid}/ns/net") as namespace:
                call("setns", namespace.fileno(), NEW_NET)
            there = new_tap("eth0")
            os.write(told, b"1")
            forward(here, there, delay_ms / 1000)
        finally:
            os._exit(1)
    os.close(told)
    if os.read(ready, 1) != b"1":
        raise OSError(f"no interface in the namespace of rank {rank}")
    os.close(ready)
    os.close(here)
    run("ip", "link", "set", f"long{rank}", "master", "middle", "up")
    return child


def limit(interface: str, rate: str) -> None:
    run("tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", rate, "burst", "64kb",
        "latency", "50ms")  # fmt: skip


class Rank:
    """A process in a namespace of its own, which waits there until its link is made."""

    def __init__(self, rank: int, ranks: int, options: argparse.Namespace) -> None:
        self.rank = rank
        self._rate = options.limit.get(rank)
        went_in, tell_in = os.pipe()
        linked, tell_linked = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                call("unshare", NEW_NET)
                os.close(tell_linked)
                os.write(tell_in, b"1")
                if os.read(linked, 1) == b"1":
                    self._become(ranks, options.command)
            finally:
                os._exit(1)
        os.close(tell_in)
        if os.read(went_in, 1) != b"1":
            raise OSError("a namespace could not be made")
        self._tell = tell_linked
        os.close(linked)
        os.close(went_in)

    def link(self, delay_ms: float) -> List[int]:
        """Makes its link; the processes that carry it."""
        if delay_ms > 0:
            return [long_link(self.rank, self.pid, delay_ms)]
        name = f"port{self.rank}"
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns",
            str(self.pid))  # fmt: skip
        run("ip", "link", "set", name, "master", "middle", "up")
        if self._rate:
            limit(name, self._rate)
        return []

    def start(self) -> None:
        os.write(self._tell, b"1")
        os.close(self._tell)

    def _become(self, ranks: int, command: List[str]) -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", "addr", "add", f"{NETWORK}.{self.rank + 1}/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        if self._rate:
            limit("eth0", self._rate)
        env = dict(
            os.environ,
            RANK=str(self.rank),
            LOCAL_RANK=str(self.rank),
            WORLD_SIZE=str(ranks),
            LOCAL_WORLD_SIZE=str(ranks),
            MASTER_ADDR=f"{NETWORK}.1",
            MASTER_PORT=PORT,
            GLOO_SOCKET_IFNAME="eth0",
        )
        os.execvpe(command[0], command, env)


def start_all(options: argparse.Namespace) -> int:
    """The greatest exit code of a rank."""
    call("unshare", NEW_NET)
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "middle", "type", "bridge")
    run("ip", "addr", "add", f"{NETWORK}.254/24", "dev", "middle")
    run("ip", "link", "set", "middle", "up")
    carriers: List[int] = []
    ranks = [Rank(rank, options.ranks, options) for rank in range(options.ranks)]
    try:
        for rank in ranks:
            carriers += rank.link(options.delay.get(rank.rank, 0))
        for rank in ranks:
            rank.start()
        return max(os.waitstatus_to_exitcode(os.waitpid(rank.pid, 0)[1]) for rank in ranks)
    finally:
        for pid in carriers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def may_be_done() -> bool:
    """Whether namespaces, a bridge, tbf and tap interfaces can be had; tried in a child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            call("unshare", NEW_NET)
            run("ip", "link", "add", "middle", "type", "bridge")
            run("ip", "link", "add", "one", "type", "veth", "peer", "name", "other")
            limit("one", "100mbit")
            new_tap("long0")
            code = 0
        except (OSError, subprocess.SubprocessError) as error:
            print(f"ranks cannot be set apart here: {error}", file=sys.stderr)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def per_rank(texts: List[str], kind: type) -> Dict[int, object]:
    pairs = [text.partition("=") for text in texts]
    return {int(rank): kind(value) for rank, _, value in pairs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--limit", action="append", default=[], metavar="RANK=RATE")
    parser.add_argument("--delay", action="append", default=[], metavar="RANK=MS")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.check:
        return 0 if may_be_done() else 1
    options.limit = per_rank(options.limit, str)
    options.delay = per_rank(options.delay, float)
    if options.command[:1] == ["--"]:
        options.command = options.command[1:]
    return start_all(options)


if __name__ == "__main__":
    sys.exit(main())
