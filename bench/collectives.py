"""What seeing a collective costs: an all_reduce of one process with the tap and without.

Processor time of the calling thread, rounds with and without in turn: what a busy machine adds is
added to both. The group has one rank, so that nothing waits for a peer.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, List

from common import interval

CALLS = 1000  # of a round
ROUNDS = 20


def _round(call: Callable[[], Any]) -> float:
    """Microseconds of the calling thread for one call."""
    start = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.thread_time_ns() - start) / CALLS / 1e3


def main(probe: Path) -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ.update(
            PARAMEDIC_PROBE=str(probe),
            PARAMEDIC_RING_DIR=folder,
            PARAMEDIC_RUN_ID="bench",
            PARAMEDIC_RING_BYTES=str(1 << 26),
        )
        _measure()


def _measure() -> None:
    import torch
    import torch.distributed as dist

    group_class, work_class = dist.ProcessGroup, dist.distributed_c10d.Work
    genuine = group_class.__dict__["allreduce"], work_class.__dict__["wait"]
    from paramedic.adapters import torch as adapter

    session = adapter.attach(torch).session
    assert session.open_ring(0, 2)
    session.shared = True
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    tensor = torch.ones(4)
    taps = adapter.attach(torch).distributed.collectives
    seen = group_class.__dict__["allreduce"], work_class.__dict__["wait"]

    def methods(allreduce: Any, wait: Any) -> None:
        group_class.allreduce, work_class.wait = allreduce, wait

    def call() -> None:
        dist.all_reduce(tensor)

    plain: List[float] = []
    extra: List[float] = []
    for _ in range(ROUNDS):
        methods(*genuine)
        without = _round(call)
        methods(*seen)
        plain.append(without)
        extra.append(_round(call) - without)
    middle, low, high = interval(extra)
    print(f"all_reduce alone {statistics.median(plain):.2f} µs; seen, it costs {middle:+.2f} µs")
    print(f"  (95 %: {low:+.2f} to {high:+.2f}), with its call site, entered and left")
    probe, handle = session.probe, next(iter(taps.calls()))
    native = statistics.median(
        _round(lambda: (probe.enter(0, 0, handle.pointer), probe.leave(0, 0, handle.group_id)))
        for _ in range(ROUNDS)
    )
    empty = statistics.median(
        _round(lambda: (probe.overhead_percent(), probe.overhead_percent())) for _ in range(ROUNDS)
    )
    print(f"  of these two calls of the probe {native:.2f} µs, two calls of nothing {empty:.2f} µs")
    dist.destroy_process_group()
