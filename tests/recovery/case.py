"""A crashing program with its repairs and what the fixed program gives: one folder of cases/.

The form of case.json is that of the scorer of crashes; a field that is not there has the
value of `DEFAULTS`. `reference.json`, `.out` and `.err` are what the fixed program
(script plus `reference_patches`) gives with plain Python; make_references.py writes them.
"""

import fnmatch
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

CASES = Path(__file__).resolve().parent / "cases"
ANSWERS = ("case.json", "reference.*", "*.patch", "__pycache__")
SETUP_SECONDS_MAX = 60
PLAIN_SECONDS_MAX = 90

DEFAULTS: Dict[str, Any] = {
    "setup": None,
    "expect_stderr_regex": [],
    "tolerance": 0,
    "max_repeats": {},
    "min_counts": {},
    "same_traceback": False,
    "expect_files": {},
    "expect_kinds": [],
    "stdout_once": [],
    "signal": None,
    "reference_patches": [],
    "env": {},
    "plain": None,
}


class Ended(NamedTuple):
    """A program that has ended, with the folder that it ran in called {CWD} in its stderr."""

    exit_code: int
    stdout: str
    stderr: str


class Case:
    """One folder; fields of case.json are read as `case["field"]`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.fields: Dict[str, Any] = json.loads((folder / "case.json").read_text())

    def __getitem__(self, field: str) -> Any:
        return self.fields[field] if field in self.fields else DEFAULTS[field]

    def stored(self, name: str) -> str:
        """The text of reference.NAME, empty where the case has none."""
        path = self.folder / f"reference.{name}"
        return path.read_text() if path.is_file() else ""


def load_cases(pattern: str = "*") -> List[Case]:
    """All cases whose name fits the glob, by name."""
    folders = sorted(path.parent for path in CASES.glob("*/case.json"))
    return [Case(folder) for folder in folders if fnmatch.fnmatch(folder.name, pattern)]


def copy_job(case: Case, target: Path) -> Path:
    """The program alone, without the answers, and prepared by the case's `setup`."""
    shutil.copytree(case.folder, target, ignore=shutil.ignore_patterns(*ANSWERS))
    return target


def set_up(case: Case, job: Path) -> None:
    if case["setup"]:
        subprocess.run(
            ["bash", "-c", case["setup"]],
            cwd=job,
            env=job_environment(case),
            check=True,
            stdin=subprocess.DEVNULL,
            timeout=SETUP_SECONDS_MAX,
        )


def job_environment(case: Case) -> Dict[str, str]:
    """One thread, a fixed hash seed, and `python` is the interpreter that runs the tests."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PARAMEDIC_", "PYTHON"))}
    env["PATH"] = str(Path(sys.executable).parent) + os.pathsep + env.get("PATH", "")
    env.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", LC_ALL="C.UTF-8")
    env.update(PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
    env.update(case["env"])
    return env


def default_signals() -> None:
    """In the child: jobs must not inherit that the tests' own starter ignores a signal."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def run_plain(case: Case, job: Path, patches: List[str]) -> Ended:
    """The program with `patches` applied, in the new folder `job`, without Paramedic."""
    copy_job(case, job)
    for patch in patches:
        subprocess.run(
            ["patch", "-p1", "-s", "--no-backup-if-mismatch", "-i", str(case.folder / patch)],
            cwd=job,
            check=True,
        )
    set_up(case, job)
    done = subprocess.run(
        case["cmd"],
        cwd=job,
        env=job_environment(case),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PLAIN_SECONDS_MAX,
        preexec_fn=default_signals,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), without_folder(done.stderr.decode(), job))


def without_folder(text: str, job: Path) -> str:
    return text.replace(str(job.resolve()), "{CWD}").replace(str(job), "{CWD}")


def last_object(tag: str, stdout: str) -> Optional[Dict[str, Any]]:
    """The JSON object of the last line `TAG {...}`, None where there is none."""
    for line in reversed(stdout.splitlines()):
        if line.startswith(tag + " {"):
            found: Dict[str, Any] = json.loads(line[len(tag) + 1 :])
            return found
    return None


def without_counts(stdout: str) -> List[str]:
    return [line for line in stdout.split("\n") if not line.startswith("COUNTS ")]


def traceback_lines(stderr: str) -> List[str]:
    """The first traceback and all that follows it."""
    lines = [line.rstrip() for line in stderr.splitlines()]
    for start, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            return lines[start:]
    return []


def differences(got: Any, want: Any, tolerance: float, path: str = "RESULT") -> List[str]:
    """Where two JSON values part; numbers may differ by `tolerance` of the larger of 1 and them."""
    if isinstance(want, dict) and isinstance(got, dict) and set(want) <= set(got):
        pairs = [(f"{path}.{key}", got[key], want[key]) for key in want]
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(got, want))]
    elif isinstance(want, float) and isinstance(got, (int, float)):
        near = math.isfinite(got) and abs(got - want) <= tolerance * max(1.0, abs(want))
        return [] if near or got == want else [f"{path} is {got}, not {want}"]
    else:
        return [] if got == want else [f"{path} is {got!r}, not {want!r}"]
    return [text for place, a, b in pairs for text in differences(a, b, tolerance, place)]
