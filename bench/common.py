"""What the sections of run.py share: where things are, and how a figure is given."""

import os
import random
import statistics
from pathlib import Path
from typing import Dict, List, Tuple

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build" / "release"
PARAMEDIC = RELEASE / "bin" / "paramedic"
PROBE = RELEASE / "lib" / "libparamedic_probe.so"
JOBS = ROOT / "bench" / "jobs"
RESAMPLES = 2000

NOTHING = "collection none kind=all interval=0 steps=1000000000 what=stats"


def environment() -> Dict[str, str]:
    """Of a job: one thread, the same hashes each time."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PARAMEDIC_")}
    env.update(OMP_NUM_THREADS="1", PYTHONHASHSEED="0")
    return env


def interval(values: List[float]) -> Tuple[float, float, float]:
    """(median, low, high): a 95 % bootstrap interval of the median."""
    chance = random.Random(0)
    medians = sorted(
        statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    return statistics.median(values), medians[RESAMPLES // 40], medians[-RESAMPLES // 40]
