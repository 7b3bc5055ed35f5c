"""Ctrl-C on a terminal: one offers a pause, two end the job."""

import json
import time

import pytest
from conftest import SECONDS_MAX
from terminal import Terminal

JOB = """
import time
done = False
turns = 0
print("going", flush=True)
while not done:
    turns += 1
    time.sleep(0.01)
print("went on", turns > 0, flush=True)
"""


@pytest.fixture
def job(program, python):
    (program.folder / "job.py").write_text(JOB)
    run = ["run", "--dir", str(program.runs), "--name", "r", "--", python, "job.py"]
    with Terminal(program, *run) as terminal:
        terminal.until(b"going")
        yield terminal


def until_paused(program):
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        report = program.report("r")
        if report["run"]["status"] == "paused":
            return report
    raise AssertionError("it never paused")


def repair(program, *words):
    done = program.paramedic("repair", "r", "--dir", str(program.runs), "--json", *words)
    return json.loads(done.stdout)


def test_one_pauses_the_job_and_a_retry_goes_on_where_it_stood(program, job):
    job.type(b"\x03")
    report = until_paused(program)
    assert report["failure"]["exception"]["type"] == "KeyboardInterrupt"
    assert report["failure"]["where"]["function"] == "<module>"
    job.until(b"Ctrl-C again ends the job")
    assert repair(program, "--retry")["resumed"] is True
    job.type(b"\x03")
    until_paused(program)
    assert repair(program, "--exec", "done = True")["resumed"] is True
    job.until(b"went on True")
    assert job.exit_code() == 0
    kinds = [one["kind"] for one in program.report("r")["repairs"]]
    assert kinds == ["retry", "action"]


def test_two_end_the_job(program, job):
    job.type(b"\x03")
    until_paused(program)
    job.type(b"\x03")
    job.until(b"KeyboardInterrupt")
    assert job.exit_code() == 130


def test_abort_ends_the_job_as_ctrl_c_does(program, job):
    job.type(b"\x03")
    until_paused(program)
    assert repair(program, "--abort")["resumed"] is False
    assert job.exit_code() == 130


def test_without_recovery_the_interruption_is_the_jobs_own(program, python):
    (program.folder / "job.py").write_text(
        "import time\n"
        "try:\n"
        "    while True:\n"
        "        print('going', flush=True)\n"
        "        time.sleep(0.01)\n"
        "except KeyboardInterrupt:\n"
        "    print('handled')\n"
    )
    run = ["run", "--on-crash", "fail", "--dir", str(program.runs), "--name", "r", "--"]
    with Terminal(program, *run, python, "job.py") as job:
        job.until(b"going")
        job.type(b"\x03")
        job.until(b"handled")
        assert job.exit_code() == 0
