"""Every program of recovery_programs.py, in this interpreter and in the others that are there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recovery_programs import PROGRAMS, wrong

HERE = Path(__file__).parent
VERSIONS = Path(os.environ.get("PYENV_ROOT", "/root/.pyenv")) / "versions"
OTHERS = [
    path
    for path in sorted(VERSIONS.glob("3.1[1-3].*/bin/python"))
    if f"{sys.version_info[0]}.{sys.version_info[1]}." not in str(path)
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_retried_program_ends_as_if_it_never_failed(tmp_path: Path, name: str) -> None:
    assert wrong(tmp_path, name) == []


@pytest.mark.parametrize("python", OTHERS, ids=lambda path: path.parts[-3])
def test_so_does_every_program_in_other_versions(python: Path) -> None:
    env = {**os.environ, "PYTHONPATH": f"{HERE.parents[1] / 'python'}:{HERE}"}
    done = subprocess.run(
        [str(python), str(HERE / "recovery_programs.py")], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
