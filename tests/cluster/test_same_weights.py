"""The weights of a job of several ranks are the same, bit for bit, with and without Paramedic."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parents[2]
JOBS = Path(__file__).parent / "jobs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
# The program under test, as in tests/e2e.
PARAMEDIC = os.environ.get("PARAMEDIC_TEST_PROGRAM", str(ROOT / "build/release/bin/paramedic"))
SECONDS_MAX = 300


class Done(NamedTuple):
    """What a job leaves: its exit code, the lines of its ranks in order, its files by name."""

    code: int
    lines: List[str]
    files: Dict[str, bytes]


def done_by(command: List[str], folder: Path) -> Done:
    """Runs it with `folder`, which is made, as its last argument."""
    left_out = ("PARAMEDIC_", "PYTHON", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    env["OMP_NUM_THREADS"] = "1"
    folder.mkdir()
    result = subprocess.run(
        [*command, str(folder)], env=env, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = Done(result.returncode, sorted(result.stdout.splitlines()), files)
    assert done.lines, result.stderr[-3000:]
    return done


def both_ways(folder: Path, ranks: int, job: str) -> Tuple[Done, Done]:
    """Without Paramedic, and under it with all ranks."""
    command = [*TORCHRUN, str(ranks), str(JOBS / job)]
    watch = [PARAMEDIC, "run", "--name", "same", "--dir", str(folder), "--"]
    return done_by(command, folder / "plain"), done_by([*watch, *command], folder / "watched")


def test_fingerprints_and_the_search_for_a_nan_leave_weights_and_random_numbers_alone(
    tmp_path: Path,
) -> None:
    plain, watched = both_ways(tmp_path, 2, "weights.py")
    assert plain.code == 0
    assert len(plain.lines) == 2
    assert watched == plain


def test_ddp_fsdp_and_groups_of_two_leave_the_same_bytes_lines_and_exit_code(
    tmp_path: Path,
) -> None:
    plain, watched = both_ways(tmp_path, 4, "layouts.py")
    assert plain.code == 1  # torchrun's, of ranks that ended with a code of their own
    assert len(plain.lines) == len(plain.files) == 4 * 5
    assert watched == plain
