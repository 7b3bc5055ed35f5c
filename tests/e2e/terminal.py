"""A program on a terminal of its own, typed to and read by a test."""

import os
import pty
import select
import signal
import time

from conftest import PARAMEDIC, SECONDS_MAX


class Terminal:
    """`paramedic WORDS…`, or another program, on a terminal of 80 columns."""

    def __init__(self, program, *words, start=PARAMEDIC):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(program.folder)
            os.execve(start, [str(start), *words], {**program.env, "TERM": "xterm"})
        self.seen = b""
        self.is_over = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        if not self.is_over:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def until(self, text):
        """Reads until `text` appears; the time limit only ends a test that has failed."""
        deadline = time.monotonic() + SECONDS_MAX
        while text not in self.seen and time.monotonic() < deadline:
            if select.select([self.fd], [], [], 1.0)[0] and not self._read():
                break
        assert text in self.seen, self.seen.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def _read(self):
        try:
            self.seen += os.read(self.fd, 65536)
        except OSError:  # the other side is gone
            return False
        return True

    def type(self, text):
        os.write(self.fd, text)

    def exit_code(self):
        """Reads to the end."""
        while self._read():
            pass
        self.is_over = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
