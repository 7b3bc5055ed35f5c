"""What snapshots take of a job's time: trains the MLP of train.py for some seconds.

Usage: forks.py SECONDS OUT.json. A snapshot is a fork, which `os.register_at_fork` tells. Its cost
is what the step with the fork and the seven after it, in which pages are copied, took longer than
the steps around them, and what the copies took themselves. It is counted twice: by the processor
time of this thread and of the copies, as a share of life without the waits for a processor, and by
the clock, copies left out, as a share of the whole life.
"""

import json
import os
import resource
import statistics
import sys
import time
from typing import List

import torch
from torch import nn
from train import mlp

AFTER = 8  # steps that pay for a snapshot
AROUND = 20


def age_s() -> float:
    """How long this process has been there."""
    with open("/proc/self/stat") as stat:
        started = int(stat.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def waited_s() -> float:
    """For how long this thread has waited for a processor."""
    with open("/proc/thread-self/schedstat") as schedstat:
        return int(schedstat.read().split()[1]) / 1e9


def copies_s() -> float:
    """Processor time of the copies that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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
    wall_s: List[float] = []
    thread_s: List[float] = []
    fork_ms: List[float] = []
    forks_at: List[int] = []
    began = [0.0]

    def before() -> None:
        began[0] = time.perf_counter()

    def after() -> None:
        fork_ms.append(1e3 * (time.perf_counter() - began[0]))
        forks_at.append(len(wall_s))

    os.register_at_fork(before=before, after_in_parent=after)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started, thread_started = time.perf_counter(), time.thread_time()
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wall_s.append(time.perf_counter() - started)
        thread_s.append(time.thread_time() - thread_started)
    # The first step is slow by itself; what its snapshot cost is taken to be what the others did.
    later = [at for at in forks_at if at >= AROUND and at + AFTER < len(wall_s)]
    number = len(forks_at)
    each = {
        name: statistics.fmean([cost_s(step_s, at) for at in later] or [0.0])
        for name, step_s in (("wall", wall_s), ("thread", thread_s))
    }
    # The newest has not ended, and the one before has not been waited for.
    copy = copies_s() / max(1, number - 2)
    found = {
        "snapshots": number,
        "fork_ms": statistics.median(fork_ms) if fork_ms else 0.0,
        "each_ms": 1e3 * each["thread"],
        "copy_ms": 1e3 * copy,
        "share": number * (each["thread"] + copy) / (age_s() - waited_s()),
        "wall_share": number * each["wall"] / age_s(),
        "step_ms": 1e3 * statistics.median(wall_s),
    }
    with open(out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
