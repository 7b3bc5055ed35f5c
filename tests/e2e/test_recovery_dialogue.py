"""The dialogue of a crashed process, its agent and whoever repairs it, with the real program."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PARAMEDIC, ROOT, SECONDS_MAX

SCRIPT = Path(__file__).with_name("jobs") / "asks_for_repair.py"


class Waiting:
    """A job that is started and left alone until it is paused."""

    def __init__(self, program, command, options=("--on-crash", "wait")):
        self.program = program
        self.process = subprocess.Popen(
            [PARAMEDIC, "run", *options, "--dir", program.runs, "--name", "r", "--", *command],
            cwd=program.folder,
            env=program.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()  # the job too, which may wait for somebody
        self.process.communicate(timeout=SECONDS_MAX)

    def report(self):
        return self.program.report("r")

    def until(self, is_so):
        """The first report that is so; the time limit only ends a test that has failed."""
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            if (self.program.runs / "r" / "run.json").exists():
                report = self.report()
                if is_so(report):
                    return report
                assert self.process.poll() is None, report
        raise AssertionError("it never was so")

    def until_paused(self):
        return self.until(lambda report: report["run"]["status"] == "paused")

    def repair(self, *words):
        done = self.program.paramedic("repair", "r", "--dir", str(self.program.runs), *words)
        return done.returncode, json.loads(done.stdout)

    def end(self):
        out, err = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, out, err


@pytest.fixture
def job(program, python):
    with Waiting(program, [python, SCRIPT]) as waiting:
        yield waiting


@pytest.fixture
def reluctant(program, python):
    with Waiting(program, [python, SCRIPT, "ValueError()", "1"]) as waiting:
        yield waiting


def test_a_crash_pauses_the_job_and_a_repair_resumes_it(job):
    report = job.until_paused()
    assert report["failure"]["exception"]["type"] == "ZeroDivisionError"
    assert report["failure"]["where"]["function"] == "share"
    assert report["failure"]["where"]["file"].endswith("asks_for_repair.py")
    assert report["run"]["ranks"][0]["status"] == "paused"
    code, answer = job.repair("--retry", "--json")
    assert code == 0
    assert answer == {
        "schema": 1,
        "resumed": True,
        "kind": "retry",
        "rank": 0,
        "step": None,
        "took_ms": 1.5,
        "reason": None,
    }
    assert job.end()[:2] == (0, b"0 earlier edits, share retry\n")
    report = job.report()
    assert (report["run"]["status"], report["failure"]) == ("finished", None)
    (repair,) = report["repairs"]
    assert (repair["kind"], repair["by"], repair["took_ms"]) == ("retry", "person", 1.5)
    assert repair["where"] == {
        "file": str(SCRIPT),
        "line": repair["where"]["line"],
        "function": "share",
    }
    assert repair["exception"]["type"] == "ZeroDivisionError"


def test_a_refused_repair_leaves_the_job_paused(reluctant):
    reluctant.until_paused()
    code, answer = reluctant.repair("--skip", "--json")
    assert (code, answer["resumed"]) == (1, False)
    assert answer["reason"] == "skip is refused"
    assert reluctant.report()["run"]["status"] == "paused"
    assert reluctant.repair("--exec", "parts = 2", "--json")[1]["kind"] == "action"
    assert reluctant.end()[:2] == (0, b"0 earlier edits, share action\n")


def test_abort_lets_the_job_fail_as_it_would_have(job):
    job.until_paused()
    code, answer = job.repair("--abort", "--json")
    assert (code, answer["resumed"]) == (0, False)
    code, out, err = job.end()
    assert (code, out) == (1, b"")
    assert b"ZeroDivisionError: division by zero" in err
    report = job.report()
    assert report["run"]["status"] == "failed"
    assert report["failure"]["exception"]["type"] == "ZeroDivisionError"


def test_after_the_limit_the_job_fails_as_it_would_have(program, python):
    options = ("--on-crash", "wait", "--wait-limit", "1s")
    with Waiting(program, [python, SCRIPT], options) as job:
        code, _, err = job.end()
    assert code == 1
    assert b"ZeroDivisionError" in err


@pytest.mark.parametrize("mode", ["auto", "fail"])
def test_without_a_terminal_nobody_is_asked(program, python, mode):
    with Waiting(program, [python, SCRIPT], ("--on-crash", mode)) as job:
        code, _, err = job.end()
    assert code == 1
    assert b"ZeroDivisionError" in err


def test_the_job_fails_as_it_would_have_when_its_agent_is_killed(job):
    job.until_paused()
    info = json.loads((job.program.runs / "r" / "run.json").read_text())
    os.kill(info["agent_pid"], signal.SIGKILL)
    code, _, err = job.end()
    assert code == 1
    assert b"ZeroDivisionError: division by zero" in err


def test_a_job_that_ends_while_it_waits_is_no_longer_paused(job):
    report = job.until_paused()
    os.kill(report["run"]["ranks"][0]["pid"], signal.SIGTERM)
    assert job.end()[0] == 128 + signal.SIGTERM
    assert job.report()["run"]["status"] == "failed"


def test_a_run_that_is_not_paused_is_not_repaired(program, python):
    (program.folder / "job.py").write_text("pass\n")
    program.run("r", [python, "job.py"])
    done = program.paramedic("repair", "r", "--dir", str(program.runs), "--retry", "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["resumed"] is False
    assert "not paused" in answer["reason"]


def test_a_rank_that_does_not_wait_is_named_with_those_that_do(job):
    job.until_paused()
    code, answer = job.repair("--retry", "--rank", "3", "--json")
    assert (code, answer["reason"]) == (1, "rank 3 is not paused (paused: 0)")
    job.repair("--abort", "--json")


def test_an_edit_is_kept_and_known_to_processes_that_start_later(program, python, job):
    patch = program.folder / "fix.patch"
    patch.write_text("--- a/job.py\n+++ b/job.py\n@@ -1 +1 @@\n-x\n+y\n")
    job.until_paused()
    assert job.repair("--apply", str(patch), "--json")[1]["kind"] == "edit"
    job.end()
    (repair,) = job.report()["repairs"]
    assert repair["patch"] == "repairs/1.patch"
    assert (program.runs / "r" / "repairs" / "1.patch").read_text() == patch.read_text()
    program.env["PARAMEDIC_RUN"] = str(program.runs / "r")
    program.env["PYTHONPATH"] = str(ROOT / "python" / "paramedic" / "inject")
    later = program.plain([python, SCRIPT])
    assert b"ZeroDivisionError" in later.stderr
    code = "from paramedic.recovery import dialogue; print(dialogue.earlier_edits())"
    assert program.plain([python, "-c", code]).stdout.decode() == f"{[patch.read_text()]}\n"


def test_one_repair_serves_all_ranks_with_the_same_fault(program, python):
    rank = f"WORLD_SIZE=2 {python} {SCRIPT}"
    with Waiting(program, ["sh", "-c", f"RANK=0 {rank} & RANK=1 {rank} & wait"]) as job:
        job.until(lambda report: [r["status"] for r in report["run"]["ranks"]] == ["paused"] * 2)
        assert job.repair("--retry", "--json")[0] == 0
        assert job.end()[1] == b"0 earlier edits, share retry\n" * 2
    assert sorted(repair["rank"] for repair in job.report()["repairs"]) == [0, 1]


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        ("OSError(5, 'Input/output error')", "retry"),
        ("RuntimeError('Parent directory /none/of/these does not exist.')", "action"),
        ("MemoryError()", "split_batch"),
    ],
)
def test_policies_repair_what_they_can(program, python, exception, kind):
    with Waiting(program, [python, SCRIPT, exception], ("--on-crash", "auto")) as job:
        code, out, err = job.end()
    assert (code, out) == (0, f"0 earlier edits, share {kind}\n".encode())
    assert b"paramedic: rank 0: " in err
    (repair,) = job.report()["repairs"]
    assert (repair["kind"], repair["by"]) == (kind, "policy")


def test_where_a_policy_is_refused_the_job_fails_as_it_would_have(program, python):
    command = [python, SCRIPT, "MemoryError('no more')", "9"]
    with Waiting(program, command, ("--on-crash", "auto")) as job:
        code, _, err = job.end()
    assert code == 1
    assert b"MemoryError: no more" in err


def test_a_pause_is_told_to_whoever_wants_to_know(program, python):
    told = program.folder / "told"
    notify = f"cat > {told}.part && mv {told}.part {told}"
    options = ("--on-crash", "wait", "--notify", notify)
    with Waiting(program, [python, SCRIPT], options) as job:
        job.until(lambda _: told.exists())
        what = json.loads(told.read_text())
        assert (what["event"], what["run"], what["rank"]) == ("paused", "r", 0)
        assert what["exception"]["type"] == "ZeroDivisionError"
        assert what["attach"] == "paramedic attach r"
        job.repair("--abort", "--json")


def test_wrong_calls_are_usage_errors(program):
    for words in ([], ["--retry", "--skip"], ["--apply", "/none.patch"], ["--retry", "--at", "x"]):
        done = program.paramedic("repair", "r", "--dir", str(program.runs), *words)
        assert (done.returncode, done.stdout) == (2, b""), words
