"""What a step takes more while the taps are in place: jobs/turns.py, of each model and of ranks."""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

from common import JOBS, NOTHING, PARAMEDIC, environment, interval

RANKS = 4
PAIRS = {"mlp": 120, "cnn": 30, "transformer": 60, "ranks": 40}
WAYS = {"idle": (["--capture", NOTHING], "0.1"), "defaults": ([], "1")}


def measured(kind: str, options: List[str], pairs: int) -> List[Dict[str, Any]]:
    """What each process wrote."""
    with tempfile.TemporaryDirectory() as folder:
        job = [sys.executable]
        if kind == "ranks":
            job += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        job += [str(JOBS / "turns.py"), kind, str(pairs), folder]
        command = [str(PARAMEDIC), "run", "--dir", str(Path(folder) / "runs"), *options, "--", *job]
        subprocess.run(command, env=environment(), check=True, capture_output=True)
        number = RANKS if kind == "ranks" else 1
        return [json.loads((Path(folder) / str(rank)).read_text()) for rank in range(number)]


def main(pairs: Optional[int]) -> None:
    """Prints the figures; of as many pairs as each job needs where none are asked for."""
    for kind, enough in PAIRS.items():
        for name, (options, goal) in WAYS.items():
            told = measured(kind, options, pairs or enough)
            plain_ms = statistics.median(ms for one in told for ms in one["plain_ms"])
            middle, low, high = interval([value for one in told for value in one["percents"]])
            print(f"{kind:11s} {plain_ms:6.2f} ms  {name:8s} {middle:+.2f} %  ", end="")
            print(f"(95 %: {low:+.2f} to {high:+.2f}; goal {goal} %)", flush=True)
