"""Real failures between two ranks under torchrun and gloo; argv[1] names the one to meet."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ.get("RANK", "0"))


def steps(count: int) -> None:
    for step in range(count):
        total = torch.ones(4)
        dist.all_reduce(total)
        print(f"step {step} total {float(total[0])}", flush=True)


def train(model: nn.Module, count: int) -> None:
    wrapped = DistributedDataParallel(model)
    for step in range(count):
        loss = wrapped(torch.ones(2, 4)).sum()
        loss.backward()
        print(f"step {step} loss {float(loss)}", flush=True)


def crash_before_the_group() -> None:
    if RANK == 1:
        {"adam": 1}[os.environ.get("OPTIMIZER", "lamb")]
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))


def crash_of_one() -> None:
    dist.init_process_group("gloo")
    steps(3)
    table = nn.Embedding(10, 4)
    value = table(torch.tensor([3 + 1000 * RANK]))
    dist.all_reduce(value.detach())


def killed() -> None:
    dist.init_process_group("gloo")
    steps(3)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    steps(3)


def segmentation_fault() -> None:
    import ctypes
    import faulthandler

    faulthandler.enable()
    dist.init_process_group("gloo")
    steps(3)
    if RANK == 1:
        ctypes.string_at(0)
    steps(3)


def missing_at_a_barrier() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=2))
    steps(2)
    if RANK == 0:
        dist.barrier()
    else:
        signal.pause()


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(4, 2)
        self.unused = nn.Linear(4, 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.used(batch)  # type: ignore[no-any-return]


def unused_parameters() -> None:
    dist.init_process_group("gloo")
    train(Unused(), 3)


def parameters_that_differ() -> None:
    dist.init_process_group("gloo")
    train(nn.Linear(4, 2 + RANK), 3)


CASES = {
    "crash_before_the_group": ("key_not_found", 1),
    "crash_of_one": ("index_out_of_bounds", 1),
    "killed": ("cpu_out_of_memory", 1),
    "segmentation_fault": ("native_crash", 1),
    "missing_at_a_barrier": ("collective_timeout", None),
    "unused_parameters": ("framework_api_misuse", None),
    "parameters_that_differ": ("collective_mismatch", None),
}

if __name__ == "__main__":
    globals()[sys.argv[1]]()
