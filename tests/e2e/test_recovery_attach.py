"""`paramedic attach` on a real terminal and on none."""

import os
import pty
import select
import signal
import subprocess
import time

import pytest
from conftest import PARAMEDIC, SECONDS_MAX
from test_recovery_dialogue import SCRIPT, Waiting


class Terminal:
    """A program on a terminal of its own, 80 columns wide."""

    def __init__(self, program, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(program.folder)
            os.execve(PARAMEDIC, [str(PARAMEDIC), *words], {**program.env, "TERM": "xterm"})
        self.seen = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        os.waitpid(self.pid, 0)

    def until(self, text):
        """Reads until `text` appears; the time limit only ends a test that has failed."""
        deadline = time.monotonic() + SECONDS_MAX
        while text not in self.seen and time.monotonic() < deadline:
            if select.select([self.fd], [], [], 1.0)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    break
        assert text in self.seen, self.seen.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.fd, text)

    def exit_code(self):
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def job(program, python):
    with Waiting(program, [python, SCRIPT]) as waiting:
        yield waiting


def test_the_console_shows_the_crash_and_repairs_it(program, job):
    job.until_paused()
    with Terminal(program, "attach", "r", "--dir", str(program.runs)) as console:
        shown = console.until(b"(rank 0) ")
        assert b"ZeroDivisionError" in shown
        assert b"share" in shown
        console.type(b"loc\t\r")
        assert b"total" in console.until(b"parts")
        console.until(b"(rank 0) ")
        console.type(b"p total * 4\r")
        assert b"40" in console.until(b"(rank 0) \x1b[K\r")
        console.type(b"skip\r")
        console.until(b"rank 0 goes on")
        assert console.exit_code() == 0
    assert job.end()[:2] == (0, b"0 earlier edits, share skip\n")


def test_leaving_the_console_leaves_the_job_paused(program, job):
    job.until_paused()
    with Terminal(program, "attach", "r", "--dir", str(program.runs)) as console:
        console.until(b"(rank 0) ")
        console.type(b"\x03\x04")
        console.until(b"stays paused")
        assert console.exit_code() == 0
    assert job.report()["run"]["status"] == "paused"
    job.repair("--abort", "--json")


def test_a_live_look_becomes_the_console_when_the_job_pauses(program, python):
    (program.folder / "job.py").write_text(
        f"import sys\ninput()\nsys.argv = ['x']\nexec(open({str(SCRIPT)!r}).read())\n"
    )
    run = ["run", "--on-crash", "wait", "--dir", str(program.runs), "--name", "r", "--"]
    with Terminal(program, *run, python, "job.py") as job:
        deadline = time.monotonic() + SECONDS_MAX
        while not (program.runs / "r" / "run.json").exists() and time.monotonic() < deadline:
            select.select([], [], [], 0.05)
        with Terminal(program, "attach", "r", "--dir", str(program.runs)) as console:
            console.until(b"running")
            job.type(b"\n")
            console.until(b"(rank 0) ")
            console.type(b"retry\r")
            console.until(b"goes on")
        job.until(b"share retry")


def test_without_a_terminal_commands_come_from_standard_input(program, job):
    job.until_paused()
    done = subprocess.run(
        [PARAMEDIC, "attach", "r", "--dir", program.runs],
        env=program.env,
        input=b"p parts\nretry\n",
        stdout=subprocess.PIPE,
        timeout=SECONDS_MAX,
        check=True,
    )
    assert b"\n0\n" in done.stdout
    assert b"rank 0 goes on" in done.stdout


def test_of_a_run_that_is_over_it_is_the_report(program, python):
    (program.folder / "job.py").write_text("pass\n")
    program.run("r", [python, "job.py"])
    done = program.paramedic("attach", "r", "--dir", str(program.runs))
    assert done.returncode == 0
    assert b"finished" in done.stdout
    assert b"the run is over" in done.stderr
