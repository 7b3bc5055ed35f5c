"""The weights of a job of several ranks are the same, bit for bit, with and without Paramedic."""

import os
import subprocess
import sys
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).parent / "jobs" / "weights.py"
# The program under test, as in tests/e2e.
PARAMEDIC = os.environ.get("PARAMEDIC_TEST_PROGRAM", str(ROOT / "build/release/bin/paramedic"))
SECONDS_MAX = 300


def said_by(command: List[str], folder: Path) -> List[str]:
    """The lines of the ranks, sorted."""
    left_out = ("PARAMEDIC_", "PYTHON", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    env["OMP_NUM_THREADS"] = "1"
    result = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return sorted(line for line in result.stdout.splitlines() if line.startswith("rank "))


def test_fingerprints_and_the_search_for_a_nan_leave_weights_and_random_numbers_alone(
    tmp_path: Path,
) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    job = [*torchrun, "--nproc-per-node", "2", str(JOB)]
    plain = said_by(job, tmp_path)
    watched = said_by([PARAMEDIC, "run", "--name", "same", "--dir", ".", "--", *job], tmp_path)
    assert len(plain) == 2
    assert watched == plain
