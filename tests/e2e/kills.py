"""Kills job, agent or both with SIGKILL at random moments and checks what can be read back.

Every record older than one second at the moment of the kill must be there, and nothing that was
not written may be. Usage: kills.py --kills 200 [--seed N]. Ends with "N passed, N failed".
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional

from kill_job import known_value

ROOT = Path(__file__).resolve().parents[2]
PARAMEDIC = ROOT / "build" / "release" / "bin" / "paramedic"
JOB = Path(__file__).parent / "kill_job.py"
KINDS = ("job", "agent", "both")
START_SECONDS_MAX = 60
FRESH_SECONDS = 1.0


def read_truth(path: Path) -> "Dict[int, float]":
    data = path.read_bytes() if path.exists() else b""
    return dict(struct.unpack_from("<qd", data, at) for at in range(0, len(data) - 15, 16))


def children_of(pid: int) -> List[int]:
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def job_pid(agent: int) -> Optional[int]:
    """The kill_job.py among all descendants of the agent."""
    waiting = children_of(agent)
    while waiting:
        pid = waiting.pop()
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(JOB).encode() in command and b"run" not in command:
            return pid
        waiting += children_of(pid)
    return None


def kill(pid: Optional[int]) -> None:
    try:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def wait_for_steps(truth: Path, agent: "subprocess.Popen[bytes]") -> None:
    limit = time.monotonic() + START_SECONDS_MAX
    while not (truth.exists() and truth.stat().st_size >= 16):
        if time.monotonic() > limit or agent.poll() is not None:
            raise RuntimeError(f"the job did not start (agent: {agent.poll()})")
        time.sleep(0.01)


def read_back(runs: Path, folder: Path) -> "Dict[int, float]":
    """step -> value of the scalars table, through `show` (which adopts) and `export`."""
    for command in (
        ["show", "--json", "--dir", str(runs), "r"],
        ["export", "--dir", str(runs), "r", "--to", "csv", str(folder / "out")],
    ):
        done = subprocess.run([str(PARAMEDIC), *command], capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: exit {done.returncode}: {done.stderr.decode()}")
    found: Dict[int, float] = {}
    with open(folder / "out" / "scalars.csv", newline="") as file:
        for row in csv.DictReader(file):
            step = int(row["step"])
            if step in found:
                raise RuntimeError(f"step {step} is there twice")
            found[step] = float(row["value"])
    return found


def one_kill(kind: str, alive_s: float, folder: Path) -> Optional[str]:
    """None when all is well, else what is wrong."""
    truth, runs = folder / "truth", folder / "runs"
    command = [str(PARAMEDIC), "run", "--dir", str(runs), "--name", "r", "--"]
    agent = subprocess.Popen(
        [*command, sys.executable, str(JOB), str(truth)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={k: v for k, v in os.environ.items() if not k.startswith("PARAMEDIC_")},
    )  # fmt: skip
    try:
        wait_for_steps(truth, agent)
        job = job_pid(agent.pid)
        time.sleep(alive_s)
        if kind in ("agent", "both"):  # the supervisor and the agent proper are two processes
            kill(agent.pid)
            kill(json.loads((runs / "r" / "run.json").read_text())["agent_pid"])
        if kind in ("job", "both"):
            kill(job)
        killed = time.time()
        if kind == "agent":  # the job goes on without its agent, then dies too
            time.sleep(0.3)
            killed = time.time()
            kill(job)
        agent.wait(timeout=60)
        wrote, found = read_truth(truth), read_back(runs, folder)
    finally:
        kill(agent.pid)
    for step, value in found.items():
        if value != known_value(step) or step > max(wrote) + 1:
            return f"step {step} reads {value}, which was never written"
    lost = [step for step, at in wrote.items() if at < killed - FRESH_SECONDS and step not in found]
    return f"{len(lost)} records older than 1 s are lost, first step {lost[0]}" if lost else None


def run_kills(count: int, seed: int) -> int:
    """How many of `count` kills went wrong; prints one line for each that did."""
    chance, failed = random.Random(seed), 0
    for number in range(count):
        kind, alive_s = KINDS[number % len(KINDS)], chance.uniform(0.0, 3.0)
        folder = Path(tempfile.mkdtemp(prefix="paramedic-kill-"))
        try:
            wrong = one_kill(kind, alive_s, folder)
        except RuntimeError as error:
            wrong = str(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if wrong:
            failed += 1
            print(f"kill {number} ({kind} after {alive_s:.3f} s, seed {seed}): {wrong}", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = run_kills(options.kills, options.seed)
    print(f"{options.kills - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
