"""`paramedic attach` on a real terminal and on none."""

import select
import subprocess
import time

import pytest
from conftest import PARAMEDIC, SECONDS_MAX
from terminal import Terminal
from test_recovery_dialogue import SCRIPT, Waiting


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
