"""A supervisor for tests: starts a script, kills it, and lets its newest snapshot go on."""

import ctypes
import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Dict, Optional

from conftest import watched_env

PR_SET_CHILD_SUBREAPER = 36
SECONDS_MAX = 60.0
PUBLISHED, ORDER, ANSWER = 24, 32, 40
SLOTS = (64, 128)


class Page:
    """The snapshot page of process `pid`."""

    def __init__(self, folder: Path, pid: int) -> None:
        with open(folder / f"paramedic-t-{pid}.snapshot", "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def word(self, at: int) -> int:
        return int(struct.unpack_from("<Q", self.memory, at)[0])

    @property
    def standby(self) -> int:
        return int(struct.unpack_from("<I", self.memory, SLOTS[self.word(PUBLISHED) % 2] + 48)[0])

    @property
    def step(self) -> int:
        return int(struct.unpack_from("<q", self.memory, SLOTS[self.word(PUBLISHED) % 2] + 8)[0])

    @property
    def reason(self) -> str:
        return self.memory[512:1024].rstrip(b"\0").decode()

    def let_go_on(self) -> None:
        struct.pack_into("<Q", self.memory, ORDER, self.word(PUBLISHED))


class Restarts:
    """One script, whose stdout is a file, so that what it wrote after a snapshot is cut off."""

    def __init__(self, folder: Path, source: str, env: Optional[Dict[str, str]] = None) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.rings = folder / "rings"
        self.rings.mkdir()
        (self.rings / "paramedic-t.output").write_bytes(b"PMOUTP1\0".ljust(4096, b"\0"))
        self.folder = folder
        (folder / "train.py").write_text(source)
        environ = watched_env(self.rings)
        environ.update(
            PARAMEDIC_RESTARTS="3",
            PARAMEDIC_SNAPSHOT_BUDGET="2",
            PARAMEDIC_SUPERVISOR=str(os.getpid()),
            **(env or {}),
        )
        self.out = folder / "out"
        with open(self.out, "wb") as out, open(folder / "err", "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "train.py"],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self.pid = self.process.pid

    def page(self) -> Page:
        return Page(self.rings, self.pid)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits while the process lives."""
        end = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < end, (self.folder / "err").read_text()
            assert _is_running(self.pid), (self.folder / "err").read_text()
            time.sleep(0.002)

    def wait_for_text(self, text: str) -> None:
        self.wait_until(lambda: text in self.out.read_text())

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Kills the process, waits for it; its wait status."""
        os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        status = os.waitpid(self.pid, 0)[1]
        if self.pid == self.process.pid:
            self.process.returncode = status
        return status

    def go_on(self) -> Page:
        """Lets the newest snapshot of the process that died go on."""
        page = self.page()
        assert page.word(PUBLISHED) > 0, page.reason
        self.pid = page.standby
        page.let_go_on()
        return page

    def end(self) -> None:
        """Ends whatever is left."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
