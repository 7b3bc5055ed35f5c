#!/usr/bin/env python3
"""Runs a command in a control group of its own whose processes together get so much memory.

    in_memory_group.py --mib 1500 -- torchrun train.py

The group lies below that of the caller and goes away with the command; version 1 and version 2 of
the interface. Who needs more is killed by the kernel. `--check` says whether this may be done here.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Optional, Tuple

ROOT = Path("/sys/fs/cgroup")
REMOVE_SECONDS_MAX = 10.0


def own_group() -> Tuple[Path, str]:
    """The folder of the caller's group, and the name of the file with its limit."""
    version_2: Optional[str] = None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        if number == "0":
            version_2 = path
    if version_2 is None:
        raise OSError("no control group manages memory here")
    return ROOT / version_2.lstrip("/"), "memory.max"


def make_group(mib: int) -> Path:
    parent, limit = own_group()
    group = parent / f"paramedic-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(str(mib << 20))
    except OSError:
        group.rmdir()
        raise
    return group


def remove(group: Path) -> None:
    """The kernel gives a group free a moment after its last process."""
    end = time.monotonic() + REMOVE_SECONDS_MAX
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def run_in(group: Path, command: List[str]) -> int:
    """The command's exit code; this process joins the group, so that it is the job's first one."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        job = subprocess.Popen(command)
        signal.signal(signal.SIGTERM, lambda number, frame: job.send_signal(number))
        return job.wait()
    finally:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        remove(group)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--mib", type=int, default=1500)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        group = make_group(options.mib)
    except OSError as error:
        print(f"no control group with a limit of memory can be made here: {error}", file=sys.stderr)
        return 1
    if options.check:
        remove(group)
        return 0
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    return run_in(group, command)


if __name__ == "__main__":
    sys.exit(main())
