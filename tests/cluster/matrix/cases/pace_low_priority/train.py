import multiprocessing
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def neighbour(seconds):
    """Another user's job, which takes what the cores have to give."""
    end = time.time() + seconds
    while time.time() < end:
        sum(range(1000))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        spawn = multiprocessing.get_context("fork")
        for _ in range(len(os.sched_getaffinity(0))):
            spawn.Process(target=neighbour, args=(60,), daemon=True).start()
    if rank == 1:
        os.nice(19)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in range(40):
        for _ in range(4):
            x = torch.randn(256, 256, generator=generator).sort(dim=1).values
        loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print("rank", rank, "step", step, "loss %.4f" % loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
