"""The real program on real jobs: what every test here shares."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The program under test: PARAMEDIC_TEST_PROGRAM, or that of the release build.
_BUILT = ROOT / "build" / "release" / "bin" / "paramedic"
PARAMEDIC = Path(os.environ.get("PARAMEDIC_TEST_PROGRAM", _BUILT))
SECONDS_MAX = 180


class Program:
    """Runs `paramedic` and plain commands in `folder`, with runs kept in `runs`."""

    def __init__(self, folder: Path, runs: Path) -> None:
        self.folder = folder
        self.runs = runs
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("PARAMEDIC_")}
        self.env["OMP_NUM_THREADS"] = "1"

    def plain(
        self, command: List[str], cwd: Optional[Path] = None, stdin: Optional[bytes] = None
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd or self.folder,
            env=self.env,
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    def paramedic(
        self, *args: str, cwd: Optional[Path] = None, stdin: Optional[bytes] = None
    ) -> "subprocess.CompletedProcess[bytes]":
        return self.plain([str(PARAMEDIC), *args], cwd=cwd, stdin=stdin)

    def run(
        self,
        name: str,
        command: List[str],
        options: Optional[List[str]] = None,
        cwd: Optional[Path] = None,
        stdin: Optional[bytes] = None,
    ) -> "subprocess.CompletedProcess[bytes]":
        args = ["run", "--dir", str(self.runs), "--name", name, *(options or []), "--"]
        return self.paramedic(*args, *[str(part) for part in command], cwd=cwd, stdin=stdin)

    def report(self, name: str) -> Dict[str, Any]:
        shown = self.paramedic("show", "--json", "--dir", str(self.runs), name)
        assert shown.returncode == 0, shown.stderr.decode()
        report: Dict[str, Any] = json.loads(shown.stdout)
        return report


@pytest.fixture
def program(tmp_path: Path) -> Program:
    assert PARAMEDIC.exists(), f"{PARAMEDIC} is missing: run make build"
    folder, runs = tmp_path / "job", tmp_path / "runs"
    folder.mkdir()
    runs.mkdir()
    return Program(folder, runs)


@pytest.fixture(scope="session")
def python() -> str:
    return sys.executable
