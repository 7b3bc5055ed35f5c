"""Starts real jobs of TensorFlow under `paramedic run`, several workers on this machine.

TensorFlow is not in the environment of the tests: jobs run in `.venv-tf`, which has what
requirements-tensorflow.txt names.
"""

import json
import re
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cluster" / "matrix"))
from matrix import ALWAYS_FINE, PARAMEDIC, Reader, end_all, environment  # noqa: E402, I001
from matrix import start, wait_for_end  # noqa: E402

PYTHON = ROOT / ".venv-tf" / "bin" / "python"
SECONDS_MAX = 240
ENOUGH_SECONDS_MAX = 120

Finding = Dict[str, Any]
Config = Dict[str, Any]


class Outcome(NamedTuple):
    """What became of a job."""

    code: Optional[int]  # of `paramedic run`; None where the test ended it
    lines: List[str]  # of the job and of paramedic, as they came
    report: Dict[str, Any]

    @property
    def loud(self) -> List[Finding]:
        """Errors and warnings."""
        return [
            finding
            for finding in self.report["findings"]
            if finding["severity"] != "info" and finding["id"] not in ALWAYS_FINE
        ]

    def of(self, name: str) -> List[Finding]:
        """The errors and warnings of one id."""
        return [finding for finding in self.loud if finding["id"] == name]

    def said(self, start: str) -> List[str]:
        """The job's lines that begin so, sorted: those of several workers come in any order."""
        return sorted(line for line in self.lines if line.startswith(start))


def free_ports(count: int) -> List[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def cluster(**counts: int) -> List[Config]:
    """TF_CONFIG of each task of a cluster: `cluster(chief=1, worker=2)`."""
    ports = iter(free_ports(sum(counts.values())))
    addresses = {
        job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()
    }
    return [
        {"cluster": addresses, "task": {"type": job, "index": index}}
        for job, count in counts.items()
        for index in range(count)
    ]


def run(
    folder: Path,
    configs: List[Any],
    *job: str,
    until: str = "",
    watched: bool = True,
) -> Outcome:
    """Runs a job of the folder `jobs`, one process for each config.

    Args:
        folder: gets the job's files and its run.
        configs: TF_CONFIG of each process; a text is given as it is.
        job: the script and its arguments.
        until: end the job once a line of the output matches.
        watched: under `paramedic run`, or without it.
    """
    assert PYTHON.exists(), f"{PYTHON} is missing: run make tensorflow"
    assert PARAMEDIC.exists(), f"{PARAMEDIC} is missing: run make build"
    folder.mkdir(exist_ok=True)
    texts = [config if isinstance(config, str) else json.dumps(config) for config in configs]
    (folder / "configs.json").write_text(json.dumps(texts))
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    command = [str(PYTHON), str(HERE / "jobs" / "start.py"), *job]
    if watched:
        options = ["--name", "job", "--dir", str(runs)]
        command = [str(PARAMEDIC), "run", *options, "--", *command]
    token = uuid.uuid4().hex
    env = environment(token)
    env.update(TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1", PARAMEDIC_DEBUG="1")
    env.update(TF_USE_LEGACY_KERAS="1")
    running, reader = start(command, folder, env)
    try:
        if until and _seen(reader, until, running):
            wait_for_end(running, 0.1)
            code: Optional[int] = None
        else:
            code = running.returncode if wait_for_end(running, SECONDS_MAX) else None
    finally:
        end_all(token)
    reader.join(5)
    lines = [text for _, text in reader.lines]
    report = _report(folder, runs, env) if watched else {"findings": []}
    return Outcome(code, lines, report)


def _seen(reader: Reader, pattern: str, running: "subprocess.Popen[bytes]") -> bool:
    deadline = time.monotonic() + ENOUGH_SECONDS_MAX
    wanted = re.compile(pattern)
    while time.monotonic() < deadline:
        if any(wanted.search(text) for _, text in list(reader.lines)):
            return True
        if running.poll() is not None:
            return False
        time.sleep(0.1)  # between looks; nothing rests on how long it is
    return False


def _report(folder: Path, runs: Path, env: Dict[str, str]) -> Dict[str, Any]:
    shown = subprocess.run(
        [str(PARAMEDIC), "show", "--json", "--dir", str(runs), "job"],
        cwd=folder,
        env=env,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr.decode()
    report: Dict[str, Any] = json.loads(shown.stdout)
    return report
