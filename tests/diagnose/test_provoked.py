"""Real crashes, diagnosed from what they really print."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest
from provoked.own_process import CASES as OWN_PROCESS
from provoked.two_ranks import CASES as TWO_RANKS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = Path(sys.executable).parent / "paramedic"
SECONDS_MAX = 300


def diagnose(log: Path) -> Dict[str, Any]:
    done = subprocess.run(
        [str(PROGRAM), "diagnose", "--json", str(log)],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr.decode()
    verdict: Dict[str, Any] = json.loads(done.stdout)["verdict"]
    return verdict


def test_each_crash_in_a_process_is_told_from_its_traceback(tmp_path: Path) -> None:
    script = HERE / "provoked" / "in_process.py"
    env = dict(os.environ, OMP_NUM_THREADS="1")
    subprocess.run([sys.executable, str(script), str(tmp_path)], env=env, check=True, timeout=300)
    categories = json.loads((tmp_path / "categories.json").read_text())
    assert len(categories) >= 50
    wrong = {}
    for name, category in categories.items():
        verdict = diagnose(tmp_path / f"{name}.log")
        if verdict["category"] != category:
            wrong[name] = (category, verdict["category"], verdict["mechanism"])
    assert not wrong


@pytest.mark.parametrize("name", sorted(OWN_PROCESS))
def test_the_death_of_a_process_is_told_from_its_output(name: str, tmp_path: Path) -> None:
    script = HERE / "provoked" / "own_process.py"
    log = tmp_path / "job.log"
    with open(log, "wb") as file:
        done = subprocess.run(
            [sys.executable, str(script), name],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, OMP_NUM_THREADS="1"),
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode != 0 or name == "in_a_thread"
    verdict = diagnose(log)
    assert verdict["category"] == OWN_PROCESS[name], verdict


@pytest.mark.parametrize("name", sorted(TWO_RANKS))
def test_what_two_ranks_die_of_is_told_from_the_launchers_output(name: str, tmp_path: Path) -> None:
    script = HERE / "provoked" / "two_ranks.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    log = tmp_path / "job.log"
    with open(log, "wb") as file:
        done = subprocess.run(
            [*launcher, "--nproc-per-node=2", str(script), name],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, OMP_NUM_THREADS="1"),
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 1
    verdict = diagnose(log)
    category, rank = TWO_RANKS[name]
    assert verdict["category"] == category, verdict
    assert rank is None or verdict["first_failing_rank"] == rank, verdict
