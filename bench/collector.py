"""What a collector costs: processor time and memory, fed by simulated nodes once a second.

The nodes are simulated: one process (node_swarm) makes and sends what the agents of so many
machines would, on the same cores as the collector. From the middle on one rank hangs.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import List, NamedTuple

RELEASE = Path(__file__).resolve().parents[1] / "build" / "release"
TICKS = os.sysconf("SC_CLK_TCK")
TOKEN = {"PARAMEDIC_COLLECTOR_TOKEN": "a-token-of-the-bench"}


class Usage(NamedTuple):
    """Of a process: seconds of processor time, memory now and at most, in MB."""

    time_s: float
    cpu_s: float
    mb: float
    peak_mb: float


def usage(pid: int) -> Usage:
    """What it has used up to now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return Usage(
        time.monotonic(),
        (int(fields[11]) + int(fields[12])) / TICKS,
        int(status["VmRSS"].split()[0]) / 1024,
        int(status["VmHWM"].split()[0]) / 1024,
    )


def rate(looks: List[Usage]) -> float:
    """Cores, from the first look to the last."""
    first, last = looks[0], looks[-1]
    return (last.cpu_s - first.cpu_s) / (last.time_s - first.time_s)


def main(nodes: int = 100, ranks: int = 100, seconds: int = 60) -> None:
    """Prints one line: cores, memory, delay."""
    # A connection for each node at both ends.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    env = {**os.environ, **TOKEN}
    with tempfile.TemporaryDirectory() as folder:
        listen = ["collector", "--dir", f"{folder}/jobs", "--listen", "grpc://127.0.0.1:0"]
        collector = subprocess.Popen(
            [str(RELEASE / "bin" / "paramedic"), *listen],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        looks: List[Usage] = []
        is_over = threading.Event()

        def look() -> None:
            while not is_over.wait(1):
                looks.append(usage(collector.pid))

        try:
            assert collector.stdout is not None
            port = collector.stdout.readline().split(",")[0].rsplit(":", 1)[1]
            # What it says goes nowhere, and must not fill the pipe.
            threading.Thread(target=collector.stdout.read, daemon=True).start()
            threading.Thread(target=look, daemon=True).start()
            words = (port, nodes, ranks, seconds, nodes * ranks // 3)
            swarm = [str(RELEASE / "bench" / "node_swarm"), *(str(word) for word in words)]
            began = os.times()
            said = json.loads(
                subprocess.run(swarm, env=env, stdout=subprocess.PIPE, check=True).stdout
            )
            ended = os.times()
            is_over.set()
        finally:
            collector.terminate()
            collector.wait()
    wall = ended.elapsed - began.elapsed
    swarm_cpu = sum(ended[2:4]) - sum(began[2:4])
    # The first seconds, in which all nodes come at once, are left out.
    steady = looks[len(looks) // 5 :]
    print(
        f"collector: {nodes} simulated nodes x {ranks} ranks at 1 Hz for {wall:.0f} s: "
        f"{rate(steady):.2f} cores, {looks[-1].peak_mb:.0f} MB at most "
        f"({looks[len(looks) // 2].mb:.0f} MB after half of the time); "
        f"{said['parcels'] / wall:.0f} parcels a second, {said['failures']} without an answer; "
        f"the hang was named on all nodes after {said['named_after_s']:.1f} s; "
        f"the nodes themselves took {swarm_cpu / wall:.2f} cores and were up to "
        f"{said['late_ms']} ms late"
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
