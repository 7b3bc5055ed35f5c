"""A crash that no policy repairs, under `paramedic run` on a terminal: the console opens there."""

import pytest
from terminal import Terminal

JOB = """
total = 0
for part in [1, 2, 0, 4]:
    total += 8 // part
    print("part", part, flush=True)
print("total", total, input("name? "), flush=True)
"""


@pytest.fixture
def job(program, python):
    (program.folder / "job.py").write_text(JOB)
    run = ["run", "--dir", str(program.runs), "--name", "r", "--", python, "job.py"]
    with Terminal(program, *run) as terminal:
        terminal.until(b"part 2")
        yield terminal


def test_it_repairs_in_place_and_gives_the_terminal_back(program, job):
    shown = job.until(b"(rank 0) ")
    assert b"ZeroDivisionError" in shown
    job.type(b"p part + 40\r")
    job.until(b"40")
    job.until(b"(rank 0) ")
    job.type(b"exec part = 1\r")
    job.until(b"rank 0 goes on")
    job.type(b"me\n")
    job.until(b"total 22 me")
    assert job.exit_code() == 0
    assert [one["kind"] for one in program.report("r")["repairs"]] == ["action"]


def test_ctrl_c_lets_the_job_end_as_it_would_have(program, job):
    job.until(b"(rank 0) ")
    job.type(b"\x03")
    job.until(b"ZeroDivisionError: ")
    assert job.exit_code() == 1


def test_leaving_it_leaves_the_job_paused(program, job):
    job.until(b"(rank 0) ")
    job.type(b"quit\r")
    job.until(b"the job stays paused")
    done = program.paramedic("repair", "r", "--dir", str(program.runs), "--skip")
    assert done.returncode == 0, done.stderr.decode()
    job.until(b"name? ")
    job.type(b"me\n")
    job.until(b"total 14 me")
    assert job.exit_code() == 0
