"""What Paramedic costs a job of four ranks that trains with DistributedDataParallel.

By pairs of whole jobs that take turns, of which wall time, the processor time of the thread that
trains and that of the process are compared; and by counting what does not depend on who else uses
the machine: bytecode instructions of that thread.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from common import JOBS, NOTHING, PARAMEDIC, environment, interval

RANKS = 4
STEPS = {"time": 400, "count": 200}
# As train.py's: of a step while its instructions are counted, against one that is not.
SLOWDOWN = {"time": 1, "count": 10}
WAYS = {"idle": ["--capture", NOTHING], "defaults": []}
CLOCKS = {
    "thread": "processor time of the thread that trains",
    "process": "processor time of the process",
    "wall": "wall time",
}


def launched(what: str, under: Optional[Sequence[str]], folder: Path) -> List[Dict[str, float]]:
    """What each rank wrote; `under`: the options of `paramedic run`; None: without it."""
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    job += ["--nproc-per-node", str(RANKS)]
    job += [str(JOBS / "ranks.py"), what, str(STEPS[what]), str(folder)]
    if under is not None:
        job = [str(PARAMEDIC), "run", "--dir", str(folder / "runs"), *under, "--", *job]
    env = {**environment(), "BENCH_SLOWDOWN": str(SLOWDOWN[what])}
    subprocess.run(job, env=env, check=True, capture_output=True)
    return [json.loads((folder / str(rank)).read_text()) for rank in range(RANKS)]


def measured(what: str, under: Optional[Sequence[str]]) -> List[Dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        return launched(what, under, Path(folder))


def pairs(number: int) -> None:
    """Of each pair both jobs run after one another, in random order."""
    for name, under in WAYS.items():
        percents: Dict[str, List[float]] = {clock: [] for clock in CLOCKS}
        plain_ms: Dict[str, List[float]] = {clock: [] for clock in CLOCKS}
        for _ in range(number):
            took = {way is None: measured("time", way) for way in random.sample([None, under], 2)}
            for clock in CLOCKS:
                plain, ours = (
                    statistics.fmean(rank[clock] for rank in took[is_plain])
                    for is_plain in (True, False)
                )
                percents[clock].append(100 * (ours / plain - 1))
                plain_ms[clock].append(plain)
        print(f"{name}, {number} pairs of {RANKS} ranks, {STEPS['time']} steps each:")
        for clock, title in CLOCKS.items():
            middle, low, high = interval(percents[clock])
            print(f"  {title:41s} {statistics.median(plain_ms[clock]):6.2f} ms a step, ", end="")
            print(f"{middle:+.2f} %  (95 %: {low:+.2f} to {high:+.2f})")


def bytecodes() -> None:
    """Of the thread that trains, in rank 0."""
    whole = sum(measured("count", None)[0].values())
    print(f"{whole:.0f} bytecode instructions a step without Paramedic")
    for name, under in WAYS.items():
        counts = measured("count", under)[0]
        ours = {f.rpartition("/paramedic/")[2]: n for f, n in counts.items() if "/paramedic/" in f}
        print(f"  {name}: {sum(ours.values()):.0f} of ours: ", end="")
        most = sorted(ours.items(), key=lambda one: -one[1])[:6]
        print(", ".join(f"{file} {number:.0f}" for file, number in most))


def main(number: int) -> None:
    """Prints the figures."""
    bytecodes()
    pairs(number)
