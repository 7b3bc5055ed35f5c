"""Runs a job of this folder in two ranks, with the taps or without, and reads its rings."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from conftest import plain_env, watched_env  # noqa: E402
from ring import Ring, rings  # noqa: E402

SECONDS_MAX = 300


class Ranks(NamedTuple):
    """What the ranks did, by rank."""

    codes: List[int]
    outputs: List[str]
    errors: List[str]
    rings: Dict[int, Ring]

    def events(self, rank: int, kind: str) -> List[Dict[str, Any]]:
        """The fields of a rank's events of a kind."""
        return [event.fields for event in self.rings[rank].events if event.kind == kind]


def run(folder: Path, script: str, *arguments: str, watched: bool = True) -> Ranks:
    """Runs jobs/SCRIPT; `folder` is empty and gets the rings."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(2):
        env = watched_env(folder) if watched else plain_env()
        env.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
        env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), PARAMEDIC_DEBUG="1")
        command = [sys.executable, str(HERE / "jobs" / script), *arguments]
        processes.append(
            subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    try:
        texts = [process.communicate(timeout=SECONDS_MAX) for process in processes]
    finally:
        for process in processes:
            process.kill()
    found = {ring.rank: ring for ring in rings(folder)}
    return Ranks([p.returncode for p in processes], *map(list, zip(*texts)), found)
