"""Runs small training scripts as `paramedic run` would have started them."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import pytest
from ring import Ring, rings

ROOT = Path(__file__).resolve().parents[2]
INJECT = ROOT / "python" / "paramedic" / "inject"
EVERYTHING = "collection all kind=all interval=1 what=stats,units\n"


def probe_path() -> str:
    """The library under test: PARAMEDIC_TEST_PROBE, or that of the release build."""
    built = ROOT / "build" / "release" / "lib" / "libparamedic_probe.so"
    return os.environ.get("PARAMEDIC_TEST_PROBE", str(built))


# For what is tested in this process.
os.environ.setdefault("PARAMEDIC_PROBE", probe_path())


class Job(NamedTuple):
    """What a script did, and what was seen of it."""

    code: int
    stdout: str
    stderr: str
    rings: List[Ring]
    folder: Path

    @property
    def ring(self) -> Ring:
        """The only ring."""
        assert len(self.rings) == 1, (self.rings, self.stderr)
        return self.rings[0]

    def losses(self) -> List[float]:
        """All losses of the only ring."""
        return [s.value for s in self.ring.scalars if s.name.startswith("loss/")]


def watched_env(folder: Path, plan: str = "") -> Dict[str, str]:
    """The environment of a process that is watched."""
    env = plain_env()
    env.update(
        PARAMEDIC_RUN=str(folder),
        PARAMEDIC_RING_DIR=str(folder),
        PARAMEDIC_RUN_ID="t",
        PARAMEDIC_PROBE=probe_path(),
        PARAMEDIC_PLAN=plan,
        PARAMEDIC_OVERHEAD_BUDGET="0",
        PYTHONPATH=str(INJECT),
    )
    return env


def plain_env() -> Dict[str, str]:
    """The environment without us."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PARAMEDIC_", "PYTHON"))}
    env.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    return env


class Warm:
    """A process that has imported torch, and forks for each script."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("warm.py"))]
        self._process = subprocess.Popen(
            command, env=plain_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, task: Dict[str, Any]) -> int:
        """The exit code of one script."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    process = Warm()
    yield process
    process.close()


def prepare(
    folder: Path, source: str, plan: str, watched: bool
) -> Tuple[Path, Path, Dict[str, str]]:
    """Writes the script; (folder of its rings, its own folder, its environment)."""
    ring_folder = folder / ("rings" if watched else "plain")
    work = folder / ("work" if watched else "work_plain")
    ring_folder.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    (work / "train.py").write_text(textwrap.dedent(source))
    return ring_folder, work, watched_env(ring_folder, plan) if watched else plain_env()


@pytest.fixture
def train(tmp_path: Path, warm: Warm) -> Callable[..., Job]:
    """Runs a script in a fork of a process that has imported torch: ten times faster than `run`."""

    def run_script(
        source: str,
        plan: str = EVERYTHING,
        watched: bool = True,
        env: Optional[Dict[str, str]] = None,
    ) -> Job:
        ring_folder, work, environ = prepare(tmp_path, source, plan, watched)
        environ.update(env or {})
        task = {
            "arguments": [],
            "cwd": str(work),
            "env": environ,
            "inject": str(INJECT) if watched else "",
            "stdout": str(tmp_path / "stdout"),
            "stderr": str(tmp_path / "stderr"),
        }
        code = warm.run(task)
        out, err = (tmp_path / name for name in ("stdout", "stderr"))
        return Job(code, out.read_text(), err.read_text(), rings(ring_folder), work)

    return run_script


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Job]:
    """Writes a script into a folder of its own and runs it, watched or not."""

    def run_script(
        source: str,
        arguments: Optional[List[str]] = None,
        plan: str = EVERYTHING,
        watched: bool = True,
        env: Optional[Dict[str, str]] = None,
    ) -> Job:
        ring_folder, work, environ = prepare(tmp_path, source, plan, watched)
        environ.update(env or {})
        done: Any = subprocess.run(
            [sys.executable, *(arguments or ["train.py"])],
            cwd=work,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Job(done.returncode, done.stdout, done.stderr, rings(ring_folder), work)

    return run_script
