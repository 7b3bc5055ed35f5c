"""A run that fails says why, whether or not recovery ever saw the failure."""

import json
import sys
from pathlib import Path

import pytest
from conftest import Program

CRASH = "import json\nprint('Epoch 1: step 30')\njson.loads('{')\n"


def test_recovery_that_is_off_leaves_the_verdict(program: Program, python: str):
    script = program.folder / "train.py"
    script.write_text(CRASH)
    done = program.run("r", [python, script], options=["--on-crash", "fail"])
    assert done.returncode == 1
    assert b"paramedic: why corrupt_data" in done.stderr
    failure = program.report("r")["failure"]
    assert failure["category"] == "corrupt_data"
    assert failure["stage"] == "train"
    assert failure["where"]["line"] == 3


@pytest.mark.parametrize("on_crash", ["auto", "fail"])
def test_diagnose_of_a_run_says_the_same(program: Program, python: str, on_crash: str):
    script = program.folder / "train.py"
    script.write_text(CRASH)
    program.run("r", [python, script], options=["--on-crash", on_crash])
    done = program.paramedic("diagnose", "--json", str(program.runs / "r"))
    assert done.returncode == 0
    verdict = json.loads(done.stdout)["verdict"]
    failure = program.report("r")["failure"]
    for key in ("category", "mechanism", "retry"):
        assert failure[key] == verdict[key]


def test_job_that_is_no_python_is_judged_too(program: Program):
    done = program.run("r", ["sh", "-c", "echo 'No space left on device' >&2; exit 9"])
    assert done.returncode == 9
    assert program.report("r")["failure"]["category"] == "disk_full"


def test_death_by_a_signal_is_a_verdict(program: Program):
    done = program.run("r", ["sh", "-c", "kill -SEGV $$"])
    assert done.returncode == 128 + 11
    assert program.report("r")["failure"]["category"] == "native_crash"


def test_launcher_with_ranks_names_the_one_that_failed_first(program: Program):
    tests = Path(__file__).resolve().parents[1]
    script = tests / "diagnose" / "provoked" / "two_ranks.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = program.run(
        "r",
        [*launcher, "--nproc-per-node=2", script, "crash_of_one"],
        options=["--on-crash", "fail"],
    )
    assert done.returncode == 1
    failure = program.report("r")["failure"]
    assert failure["category"] == "index_out_of_bounds"
    assert failure["first_failing_rank"] == 1
