#!/usr/bin/env python3
"""Runs a command in a control group of its own, whose processes together get so much and no more.

    in_control_group.py --mib 1500 -- torchrun train.py
    in_control_group.py --cpu-percent 10 -- python train.py

The group lies below that of the caller and goes away with the command; version 1 and version 2 of
the interface. Who needs more memory is killed by the kernel, who needs more of a core has to wait.
`--check` says whether this may be done here.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Tuple

ROOT = Path("/sys/fs/cgroup")
REMOVE_SECONDS_MAX = 10.0
CPU_PERIOD_US = 20_000


def own_group(controller: str) -> Tuple[Path, bool]:
    """The folder of the caller's group, and whether it is one of version 1."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return ROOT / controller / path.lstrip("/"), True
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return ROOT / line[3:].lstrip("/"), False
    raise OSError(f"no control group manages {controller} here")


class Group:
    """A new group that manages one thing."""

    def __init__(self, controller: str, amount: int) -> None:
        parent, is_first = own_group(controller)
        self.parent = parent
        self.folder = parent / f"paramedic-test-{os.getpid()}"
        self.folder.mkdir(exist_ok=True)  # of version 2 one folder manages all
        try:
            for name, text in limits(controller, amount, is_first):
                (self.folder / name).write_text(text)
        except OSError:
            self.folder.rmdir()
            raise

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        """The kernel gives a group free a moment after its last process."""
        (self.parent / "cgroup.procs").write_text(str(os.getpid()))
        end = time.monotonic() + REMOVE_SECONDS_MAX
        while self.folder.exists():
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


def limits(controller: str, amount: int, is_first: bool) -> List[Tuple[str, str]]:
    """Names and texts of the files that set it."""
    if controller == "memory":
        name = "memory.limit_in_bytes" if is_first else "memory.max"
        return [(name, str(amount << 20))]
    quota_us = CPU_PERIOD_US * amount // 100
    if is_first:
        return [("cpu.cfs_period_us", str(CPU_PERIOD_US)), ("cpu.cfs_quota_us", str(quota_us))]
    return [("cpu.max", f"{quota_us} {CPU_PERIOD_US}")]


def run_in(groups: List[Group], command: List[str]) -> int:
    """The command's exit code; this process enters too, so that the job's first one is inside."""
    for group in groups:
        group.enter()
    try:
        job = subprocess.Popen(command)
        signal.signal(signal.SIGTERM, lambda number, frame: job.send_signal(number))
        return job.wait()
    finally:
        for group in groups:
            group.leave()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--mib", type=int)
    parser.add_argument("--cpu-percent", type=int, help="of one core")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    wanted = {"memory": options.mib, "cpu": options.cpu_percent}
    if options.check:
        wanted = {"memory": 1500, "cpu": 50}
    try:
        groups = [Group(name, amount) for name, amount in wanted.items() if amount is not None]
    except OSError as error:
        print(f"no control group with a limit can be made here: {error}", file=sys.stderr)
        return 1
    if options.check:
        for group in groups:
            group.leave()
        return 0
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    return run_in(groups, command)


if __name__ == "__main__":
    sys.exit(main())
