"""Trains with four gloo ranks; `four_ranks.py CRASHING`: the ranks, comma-separated, that crash."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

CRASHING = [int(rank) for rank in sys.argv[1].split(",")]
STEPS = 12


def share(rank, step):
    parts = 0 if step == 5 and rank in CRASHING else 4
    return 1.0 / parts


def work(rank, world_size):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x = torch.full((8, 4), float(rank + step) / 10)
        loss = (model(x) - 1).pow(2).mean() * share(rank, step)
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    return model


def main():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = f"file://{os.getcwd()}/rendezvous"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=world_size)
    model = work(rank, world_size)
    print(f"rank {rank} {model.weight.sum().item():.6f}\n", end="", flush=True)
    dist.destroy_process_group()


main()
