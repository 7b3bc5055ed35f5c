import gc

import torch
import torch.distributed as dist
import torch.nn as nn


def train(rank, world):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 700), nn.ReLU(), nn.Linear(700, 300), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in range(200):
        x = torch.randn(64, 64, generator=generator)
        loss = (model(x)[:, 0] - x.mean(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        if step % 10 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.4f}", flush=True)


def main():
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.get_world_size())
    # As in tests/cluster/jobs/weights.py: else a thread of gloo outlives Python.
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


main()
