"""What a collector costs: processor time and memory, fed by simulated nodes once a second.

The nodes are simulated: one process (node_swarm) writes and sends what the agents of so many
machines would, on the same cores as the collector.
"""

import json
import os
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
    env = {**os.environ, "PARAMEDIC_COLLECTOR_TOKEN": "a-token-of-the-bench"}
    with tempfile.TemporaryDirectory() as folder:
        listen = ["collector", "--dir", f"{folder}/jobs", "--listen", "grpc://127.0.0.1:0"]
        collector = subprocess.Popen(
            [str(RELEASE / "bin" / "paramedic"), *listen],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert collector.stdout is not None
        port = collector.stdout.readline().split(",")[0].rsplit(":", 1)[1]
        swarm = [str(RELEASE / "bench" / "node_swarm"), port]
        began = time.monotonic()
        done = subprocess.run(
            [*swarm, str(nodes), str(ranks), str(seconds), f"{folder}/swarm"],
            env=env,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        wall = time.monotonic() - began
        cost = usage(collector.pid)
        said = json.loads(done.stdout)
        collector.terminate()
        collector.wait()
    print(
        f"collector: {nodes} simulated nodes x {ranks} ranks at 1 Hz for {wall:.0f} s: "
        f"{cost['cpu_s'] / wall:.2f} cores, {cost['mb']:.0f} MB at most; "
        f"{said['parcels'] / wall:.0f} parcels a second, a round was {said['latest_ms']} ms late"
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
