"""A run folder on a file system that fills up, and one on a file system with no room at all."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "scripts" / "mlp_plain.py"


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of the size asked for; skipped where mounting is not allowed."""
    mounted = []

    def make(size: str) -> Path:
        folder = tmp_path / f"disk-{size}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("may not mount a tmpfs here")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("size", ["4k", "64k", "256k"])
def test_a_full_disk_leaves_the_job_alone_and_says_so_once(program, python, small_disk, size):
    # GIVEN a job, and a run folder that has no room for what it records
    plain = program.plain([python, str(SCRIPT)])
    program.runs = small_disk(size)
    everything = ["--capture", "collection g kind=gradient interval=1 what=stats,raw"]
    everything += ["--overhead-budget", "0"]  # on a busy machine too little would be recorded
    # WHEN the job runs with every gradient recorded at every step
    watched = program.run("r", [python, str(SCRIPT)], options=everything)
    # THEN the job ends as it would have, with one clear message
    assert (watched.returncode, watched.stdout) == (plain.returncode, plain.stdout)
    assert watched.stderr.count(b"No space left on device") == 1, watched.stderr.decode()
