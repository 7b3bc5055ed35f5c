"""What a collector costs: processor time and memory, fed by simulated nodes once a second.

The nodes are simulated: one process (node_swarm) writes and sends what the agents of so many
machines would, on the same cores as the collector.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict

RELEASE = Path(__file__).resolve().parents[1] / "build" / "release"
TICKS = os.sysconf("SC_CLK_TCK")


def usage(pid: int) -> Dict[str, float]:
    """Seconds of processor time and the most memory, in MB, of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return {"cpu_s": (int(fields[11]) + int(fields[12])) / TICKS, "mb": int(peak.split()[1]) / 1024}


def main(nodes: int = 100, ranks: int = 100, seconds: int = 30) -> None:
    """Prints one line: cores, memory, delay."""
    # The swarm has four files open a rank, and one process only so many.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    nodes_at_most = max(1, (most - 1000) // (4 * ranks))
    env = {**os.environ, "PARAMEDIC_COLLECTOR_TOKEN": "a-token-of-the-bench"}
    with tempfile.TemporaryDirectory() as folder:
        listen = ["collector", "--dir", f"{folder}/jobs", "--listen", "grpc://127.0.0.1:0"]
        collector = subprocess.Popen(
            [str(RELEASE / "bin" / "paramedic"), *listen],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert collector.stdout is not None
            port = collector.stdout.readline().split(",")[0].rsplit(":", 1)[1]
            swarm = [str(RELEASE / "bench" / "node_swarm"), port]
            began = time.monotonic()
            parts = [
                subprocess.Popen(
                    [
                        *(str(word) for word in (*swarm, nodes, ranks, seconds, f"{folder}/swarm")),
                        *(str(end) for end in (first, min(nodes, first + nodes_at_most))),
                    ],
                    env=env,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for first in range(0, nodes, nodes_at_most)
            ]
            said = [json.loads(part.communicate()[0]) for part in parts]
            wall = time.monotonic() - began
            cost = usage(collector.pid)
        finally:
            collector.terminate()
            collector.wait()
    print(
        f"collector: {nodes} simulated nodes x {ranks} ranks at 1 Hz for {wall:.0f} s: "
        f"{cost['cpu_s'] / wall:.2f} cores, {cost['mb']:.0f} MB at most; "
        f"{sum(one['parcels'] for one in said) / wall:.0f} parcels a second, "
        f"a round was at most {max(one['latest_ms'] for one in said)} ms late"
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
