#!/usr/bin/env python3
"""Real jobs of several ranks, faulty and healthy, and what `paramedic run` finds in them.

A case is a folder of cases/: `case.json` says how the job is started and what is wrong with it, in
the form of the project's scorer of distributed jobs. A finding counts when it is an error or a
warning.

    matrix.py [--slow FACTOR] [--keep FOLDER] [PATTERN…]      e.g. matrix.py 'hang_*' healthy_join
"""

import argparse
import fnmatch
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import IO, Any, Dict, List, NamedTuple, Optional, Tuple

HERE = Path(__file__).resolve().parent
TOOLS = HERE / "tools"
ROOT = HERE.parents[2]
CASES = HERE / "cases"
# The program under test, as in tests/e2e.
PARAMEDIC = Path(
    os.environ.get("PARAMEDIC_TEST_PROGRAM", ROOT / "build" / "release" / "bin" / "paramedic")
)
LOUD = ("error", "warning")
# A machine that is too small is a true warning about any job of these; it is nobody's fault.
ALWAYS_FINE = {"cpu_oversubscription"}
GRACE_SECONDS = 20.0
# What a case may need of the machine (`needs`), and the program that says whether it is there.
NEEDS = {
    "ranks apart": [str(TOOLS / "ranks_apart.py"), "--check"],
    "control group": [str(TOOLS / "in_control_group.py"), "--check"],
}
SHOW_SECONDS_MAX = 60.0
# Marks the processes of a case, so that none is left behind.
TOKEN = "PARAMEDIC_MATRIX_CASE"
LAUNCH_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Case:
    """One folder; fields of case.json are read as `case["field"]`, None where there is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.fields: Dict[str, Any] = json.loads((folder / "case.json").read_text())

    def __getitem__(self, field: str) -> Any:
        return self.fields.get(field)

    def start(self) -> List[str]:
        """The command; {tools} stands for the folder of programs that cases share."""
        return [word.replace("{tools}", str(TOOLS)) for word in self["start"]]

    def why_not_here(self) -> Optional[str]:
        """What this machine does not let us do, and the case needs."""
        need = self["needs"]
        return None if need is None else _why_not(need)


@functools.lru_cache(maxsize=None)
def _why_not(need: str) -> Optional[str]:
    check = NEEDS[need]
    tried = subprocess.run(
        [sys.executable, *check], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if tried.returncode == 0:
        return None
    return tried.stderr.decode("utf-8", "replace").strip().splitlines()[-1]


class Outcome(NamedTuple):
    """What became of a case. `problems` is empty when everything was as it should be."""

    case: str
    problems: List[str]
    findings: List[Dict[str, Any]]
    delay_s: Optional[float]  # from the fault to the first finding that was expected
    wall_s: float
    output: str


def load_cases(patterns: Tuple[str, ...] = ("*",)) -> List[Case]:
    """The cases whose name fits one of the globs, by name."""
    folders = sorted(path.parent for path in CASES.glob("*/case.json"))
    return [
        Case(folder)
        for folder in folders
        if any(fnmatch.fnmatch(folder.name, pattern) for pattern in patterns)
    ]


def read_list(path: Path) -> Dict[str, str]:
    """The lines `NAME: REASON` of not_yet.txt and the like."""
    lines = [line.partition(":") for line in path.read_text().splitlines() if line.strip()]
    return {name.strip(): reason.strip() for name, _, reason in lines if name[0] != "#"}


class Reader(threading.Thread):
    """Keeps what a pipe gives, with the time of each line."""

    def __init__(self, pipe: "IO[bytes]") -> None:
        super().__init__(daemon=True)
        self.pipe = pipe
        self.lines: List[Tuple[float, str]] = []
        self.start()

    def run(self) -> None:
        for raw in iter(self.pipe.readline, b""):
            self.lines.append((time.time(), raw.decode("utf-8", "replace").rstrip("\n")))


def environment(token: str) -> Dict[str, str]:
    """`torchrun` and `python` are those of the interpreter that runs the tests."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PARAMEDIC_", "PYTHON")) and name not in LAUNCH_VARIABLES
    }
    env["PATH"] = str(Path(sys.executable).parent) + os.pathsep + env.get("PATH", "")
    env["OMP_NUM_THREADS"] = "1"
    env[TOKEN] = token
    return env


def left_behind(token: str) -> List[int]:
    """Processes that carry the mark of a case in their environment."""
    mark = f"{TOKEN}={token}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            pass
    return found


def end_all(token: str) -> None:
    for number in (signal.SIGCONT, signal.SIGKILL):
        for pid in left_behind(token):
            try:
                os.kill(pid, number)
            except OSError:
                pass


def signal_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except OSError:
        pass


def wait_for_end(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Whether it ended by itself within that time."""
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGKILL)
        process.wait()
    return False


def default_signals() -> None:
    """In the child: jobs must not inherit that the tests' own starter ignores a signal."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(
    command: List[str], folder: Path, env: Dict[str, str]
) -> "Tuple[subprocess.Popen[bytes], Reader]":
    """Starts a job in a session of its own, and reads what it prints on both outputs."""
    running = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=default_signals,
    )
    assert running.stdout is not None
    return running, Reader(running.stdout)


def run_case(case: Case, work: Path, slow: float = 1.0) -> Outcome:
    """Runs a copy of the case in the new folder `work` and judges what was found.

    `slow` stretches the time that the job may take, for a machine that is busy.
    """
    job, runs = work / "job", work / "runs"
    ignored = shutil.ignore_patterns("case.json", "__pycache__", "paramedic-runs")
    shutil.copytree(case.folder, job, ignore=ignored)
    runs.mkdir()
    token = uuid.uuid4().hex
    env = environment(token)
    place = ["--dir", str(runs)]
    started = time.time()
    command = [str(PARAMEDIC), "run", "--name", "job", *place, "--", *case.start()]
    running, reader = start(command, job, env)
    try:
        ended = wait_for_end(running, case["timeout_s"] * slow)
    finally:
        end_all(token)
    reader.join(5)
    wall_s = time.time() - started
    output = "\n".join(f"{at - started:6.1f} {text}" for at, text in reader.lines)
    shown = subprocess.run(
        [str(PARAMEDIC), "show", "--json", *place, "job"],
        cwd=job,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SHOW_SECONDS_MAX,
        check=False,
    )
    if shown.returncode != 0:
        problem = f"show ends with {shown.returncode}: {shown.stderr.decode()}"
        return Outcome(case.name, [problem], [], None, wall_s, output)
    findings = json.loads(shown.stdout)["findings"]
    problems, delay_s = judge(case, findings, reader.lines)
    if case["kind"] == "healthy" and not (ended and running.returncode == 0):
        problems.append(f"the job ended with {running.returncode if ended else 'a time-out'}")
    return Outcome(case.name, problems, findings, delay_s, wall_s, output)


def judge(
    case: Case, findings: List[Dict[str, Any]], lines: List[Tuple[float, str]]
) -> Tuple[List[str], Optional[float]]:
    """What is wrong with the findings, and how long after the fault the first right one came."""
    loud = [finding for finding in findings if finding["severity"] in LOUD]
    fine = set(case["also_fine"] or []) | ALWAYS_FINE
    wanted = set(case["expect_any"]) if case["kind"] == "faulty" else set()
    problems = [
        f"not expected: {describe(finding)}"
        for finding in loud
        if finding["id"] not in wanted | fine
    ]
    if case["kind"] == "healthy":
        return problems, None
    hits = [finding for finding in loud if finding["id"] in wanted]
    if not hits:
        return [*problems, f"nothing of {sorted(wanted)} was found"], None
    says = case["expect_says"]
    if says is not None and not any(says in told(finding) for finding in hits):
        problems.append(f"{says} is not said: {describe(hits[0])}")
    rank = case["rank"]
    if rank is not None and not any(finding["rank"] == rank for finding in hits):
        problems.append(f"rank {rank} is not named: {describe(hits[0])}")
    places = [place for place in [case["where"], *(case["where_also"] or [])] if place]
    if case["where"] and not any(is_at(finding, place) for finding in hits for place in places):
        problems.append(f"no finding is at {case['where']}: {describe(hits[0])}")
    delay_s = None
    if case["fault_line"]:
        pattern = re.compile(case["fault_line"])
        fault = next((at for at, text in lines if pattern.search(text)), None)
        if fault is not None:
            delay_s = min(finding["time"] for finding in hits) - fault
    return problems, delay_s


def is_at(finding: Dict[str, Any], place: Dict[str, Any]) -> bool:
    """Whether it names the file, and the line or one beside it."""
    where = finding["where"]
    if not where or Path(where["file"]).name != Path(place["file"]).name:
        return False
    return place.get("line") is None or abs(where["line"] - place["line"]) <= 1


def told(finding: Dict[str, Any]) -> str:
    return "\n".join([finding["message"], *finding["evidence"]])


def describe(finding: Dict[str, Any]) -> str:
    where = finding["where"] or {"file": "-", "line": 0}
    return (
        f"{finding['id']} rank {finding['rank']} at {Path(where['file']).name}:{where['line']}: "
        f"{finding['message']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--slow", type=float, default=1.0, help="stretches the time of each job")
    parser.add_argument("--keep", type=Path, help="keep jobs, runs and outputs there")
    options = parser.parse_args()
    cases = load_cases(tuple(options.patterns))
    if not cases:
        parser.error("no case matches")
    failed = 0
    skipped = 0
    for case in cases:
        why_not = case.why_not_here()
        if why_not is not None:
            skipped += 1
            print(f"skipped {case.name}: {why_not}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as temporary:
            work = options.keep / case.name if options.keep else Path(temporary) / "case"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            outcome = run_case(case, work, options.slow)
            (work / "output.txt").write_text(outcome.output)
        failed += bool(outcome.problems)
        delay = "" if outcome.delay_s is None else f" {outcome.delay_s:+.1f} s after the fault"
        print(f"{'FAILED' if outcome.problems else 'ok':6} {case.name:32} "
              f"{outcome.wall_s:6.1f} s{delay}", flush=True)  # fmt: skip
        for problem in outcome.problems:
            print(f"       {problem}", flush=True)
    ran = len(cases) - skipped
    print(f"{ran - failed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
