"""Trains a small model; its ranks are started by hand, from a shell."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

import model as job_model

STEPS = 40


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=40))
    rank = dist.get_rank()
    model = nn.parallel.DistributedDataParallel(job_model.make())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(STEPS):
        x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step * 64 + rank))
        loss = (model(x) - x[:, :2]).pow(2).mean()
        optimizer.zero_grad()
        (loss * job_model.scale(step)).backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.4f} pid {os.getpid()}", flush=True)
    dist.destroy_process_group()


main()
