"""A job that dies of a signal goes on under the real program."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PARAMEDIC, Program

SCRIPT = Path(__file__).with_name("scripts") / "dies_once.py"


def command(python: str, deaths: str, **env: str):
    words = [f"{key}={value}" for key, value in env.items()]
    return ["env", f"DEATHS={deaths}", *words, python, SCRIPT]


def restarts(report):
    return [repair for repair in report["repairs"] if repair["kind"] == "restart"]


def left_over(report):
    return [name for name in os.listdir("/dev/shm") if report["run"]["id"] in name]


def test_output_and_result_are_those_of_a_job_that_never_died(program: Program, python: str):
    expected = program.plain(command(python, ""))
    done = program.run("r", command(python, "40 41 90", SIGNAL="SIGSEGV"))
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == expected.stdout
    report = program.report("r")
    assert report["run"]["status"] == "finished"
    assert [repair["exception"]["type"] for repair in restarts(report)] == ["SIGSEGV"] * 3
    assert (program.runs / "r" / "logs" / "rank-0.out").read_bytes() == expected.stdout
    steps = [line for line in done.stderr.splitlines() if line.startswith(b"step ")]
    assert steps == [line for line in expected.stderr.splitlines() if line.startswith(b"step ")]
    assert not left_over(report)


def test_job_that_dies_each_time_ends_after_its_restarts(program: Program, python: str):
    done = program.run("r", command(python, "40", AGAIN="1"), options=["--restarts", "2"])
    assert done.returncode == 128 + signal.SIGKILL
    assert b"restart 2 of 2" in done.stderr
    assert b"has gone on 2 times already" in done.stderr
    assert len(restarts(program.report("r"))) == 2
    assert program.report("r")["run"]["signal"] == signal.SIGKILL


@pytest.mark.parametrize("options", [["--restarts", "0"], ["--on-crash", "fail"]])
def test_without_restarts_a_death_is_the_end(program: Program, python: str, options):
    done = program.run("r", command(python, "40"), options=options)
    assert done.returncode == 128 + signal.SIGKILL
    assert not restarts(program.report("r"))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_job_that_ends_of_a_request_does_not_go_on(program: Program, python: str, name: str):
    done = program.run("r", command(python, "40", SIGNAL=name))
    assert done.returncode == 128 + getattr(signal, name)
    assert not restarts(program.report("r"))


def under_way(program: Program, python: str, script: Path) -> "subprocess.Popen[bytes]":
    """The run "r" of `script`, whose stdout is read while it goes on."""
    return subprocess.Popen(
        [str(PARAMEDIC), "run", "--dir", str(program.runs), "--name", "r", "--", python, script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=program.env,
    )


def test_kill_after_a_request_to_end_is_the_end(program: Program, python: str):
    script = program.folder / "stubborn.py"
    script.write_text(
        "import os, signal, time, torch\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n"
        "net = torch.nn.Linear(2, 2)\n"
        "opt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "net(torch.ones(1, 2)).sum().backward(); opt.step()\n"
        "print('ready', os.getpid(), flush=True)\n"
        "while True: time.sleep(0.01)\n"
    )
    with under_way(program, python, script) as process:
        assert process.stdout is not None
        word, pid = process.stdout.readline().split()
        assert word == b"ready"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"asked\n"
        os.kill(int(pid), signal.SIGKILL)
        assert process.wait() == 128 + signal.SIGKILL
    assert not restarts(program.report("r"))


def test_copies_do_not_outlive_a_supervisor_that_was_killed(program: Program, python: str):
    script = program.folder / "waits.py"
    script.write_text(
        "import os, time, torch\n"
        "net = torch.nn.Linear(2, 2)\n"
        "opt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "net(torch.ones(1, 2)).sum().backward(); opt.step()\n"
        "children = open('/proc/self/task/%d/children' % os.getpid()).read()\n"
        "print(os.getpid(), children, flush=True)\n"
        "while True: time.sleep(0.01)\n"
    )
    with under_way(program, python, script) as process:
        assert process.stdout is not None
        pid, copy = map(int, process.stdout.readline().split())
        process.kill()
        process.wait()
        os.kill(pid, signal.SIGKILL)
        for gone in (pid, copy):
            while os.path.exists(f"/proc/{gone}"):
                time.sleep(0.01)
    while (report := program.report("r"))["run"]["status"] == "running":
        time.sleep(0.01)
    assert not left_over(report)
