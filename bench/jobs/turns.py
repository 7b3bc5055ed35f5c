"""What ours takes of a step: blocks of steps with the taps in place and without, in one process.

Usage: turns.py mlp|cnn|transformer|ranks PAIRS FOLDER, under `paramedic run`; `ranks` under
torchrun. Each process writes FOLDER/RANK: for each pair of blocks, in percent, what a step takes
more of the processor, in the thread that trains, while the taps are in place; and how many
milliseconds it takes without. Two processes differ by some percent for reasons of their own, which
pairs within one do not see; nor do they see what other processes and threads of ours take.
"""

import json
import os
import random
import statistics
import sys
from pathlib import Path
from time import perf_counter_ns, thread_time_ns
from typing import Any, Callable, Dict, List

import torch
import torch.distributed as dist
from paramedic.adapters.torch import attach
from torch.nn.parallel import DistributedDataParallel
from train import cnn, mlp, step_of, transformer

WARM_UP = 700  # steps: the first samples, and those of which all have fingerprints
BLOCK = 40  # steps: four times what the default plan asks for each tenth of
SETTLE = 3  # steps after a switch that are left out
SLOWEST = 0.01  # share of a block's steps that are other people's work

Step = Callable[[], None]


class Taps:
    """Ours, off and on; the time in between is no step's."""

    def __init__(self) -> None:
        self._adapter = attach(torch)
        self._ours: Any = torch.autograd.backward
        module: Any = sys.modules["torch.nn.modules.module"]
        optimizer: Any = sys.modules["torch.optim.optimizer"]
        names = [name for name in vars(module) if name.startswith("_global") and "hooks" in name]
        self._tables = [getattr(module, name) for name in names]
        self._tables += [
            optimizer._global_optimizer_pre_hooks,
            optimizer._global_optimizer_post_hooks,
        ]
        self._hooks: List[Dict[Any, Any]] = []
        self._off_ns = 0

    def off(self) -> None:
        self._off_ns = perf_counter_ns()
        torch.autograd.backward = self._adapter.session.genuine_backward
        self._hooks = []
        for table in self._tables:
            ours = {key: table[key] for key in table if str(key).startswith("paramedic.")}
            for key in ours:
                del table[key]
            self._hooks.append(ours)

    def on(self) -> None:
        if not self._off_ns:
            return
        torch.autograd.backward = self._ours
        for table, ours in zip(self._tables, self._hooks):
            table.update(ours)
        self._pass_over(perf_counter_ns() - self._off_ns)
        self._off_ns = 0

    def _pass_over(self, ns: int) -> None:
        adapter: Any = self._adapter
        adapter.steps._done_ns += ns
        adapter.phases.step_start += ns
        adapter.phases._cursor += ns
        replicas = adapter.replicas
        replicas._last = (replicas._last[0] + ns, replicas._last[1])
        adapter.pace._state.beat_ns += ns
        adapter.pace._state.report_ns += ns
        if adapter.quick.on:
            state = adapter.quick.stretch.state
            for name in ("first_ns", "last_ns", "told_ns", "tick_ns", "end_ns"):
                setattr(state, name, getattr(state, name) + ns)


def block_ms(step: Step) -> float:
    """Of the mean step, without the slowest."""
    taken = []
    for at in range(-SETTLE, BLOCK):
        start = thread_time_ns()
        step()
        if at >= 0:
            taken.append(thread_time_ns() - start)
    taken.sort()
    return statistics.fmean(taken[: round(BLOCK * (1 - SLOWEST))]) / 1e6


def measure(step: Step, pairs: int, out: Path) -> None:
    taps, chance = Taps(), random.Random(0)  # in the same order on all ranks
    for _ in range(WARM_UP):
        step()
    percents, plain_ms = [], []
    for _ in range(pairs):
        took = {}
        for ours in chance.sample([False, True], 2):
            (taps.on if ours else taps.off)()
            took[ours] = block_ms(step)
        percents.append(100 * (took[True] / took[False] - 1))
        plain_ms.append(took[False])
    taps.on()
    out.write_text(json.dumps({"percents": percents, "plain_ms": plain_ms}))


def main() -> None:
    kind, pairs, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model: Any
    model, batch = {"mlp": mlp, "ranks": mlp, "cnn": cnn, "transformer": transformer}[kind]()
    if kind == "ranks":
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
    measure(step_of(model, batch), pairs, folder / os.environ.get("RANK", "0"))
    if kind == "ranks":
        dist.barrier()
        os._exit(0)  # see ranks.py: the group outlives what is measured


if __name__ == "__main__":
    main()
