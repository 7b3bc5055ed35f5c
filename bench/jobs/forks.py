"""What snapshots take of a job's time: trains the MLP of train.py for some seconds.

Usage: forks.py SECONDS OUT.json. A snapshot is a fork, which `os.register_at_fork` tells. Its cost
is what the step with the fork and the three after it, in which pages are copied, took longer than
the steps around them; the share is of the whole life of the process, as the budget is meant.
"""

import json
import os
import statistics
import sys
import time
from typing import List

import torch
from torch import nn
from train import mlp

AFTER = 4  # steps that pay for a snapshot
AROUND = 20


def age_s() -> float:
    """How long this process has been there."""
    with open("/proc/self/stat") as stat:
        started = int(stat.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def cost_s(step_s: List[float], at: int) -> float:
    """What the snapshot after step `at` cost."""
    around = step_s[max(0, at - AROUND) : at] + step_s[at + AFTER : at + AFTER + AROUND]
    return sum(step_s[at : at + AFTER]) - AFTER * statistics.fmean(around)


def main() -> None:
    seconds, out = float(sys.argv[1]), sys.argv[2]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, batch = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step_s: List[float] = []
    fork_ms: List[float] = []
    forks_at: List[int] = []
    began = [0.0]

    def before() -> None:
        began[0] = time.perf_counter()

    def after() -> None:
        fork_ms.append(1e3 * (time.perf_counter() - began[0]))
        forks_at.append(len(step_s))

    os.register_at_fork(before=before, after_in_parent=after)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step_s.append(time.perf_counter() - started)
    # The first step is slow by itself; what its snapshot cost is taken to be what the others did.
    later = [cost_s(step_s, at) for at in forks_at if at >= AROUND and at + AFTER < len(step_s)]
    each = statistics.fmean(later) if later else 0.0
    cost = sum(later) + each * (len(forks_at) - len(later))
    found = {
        "snapshots": len(forks_at),
        "fork_ms": statistics.median(fork_ms) if fork_ms else 0.0,
        "each_ms": 1e3 * each,
        "share": cost / age_s(),
        "step_ms": 1e3 * statistics.median(step_s),
    }
    with open(out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
