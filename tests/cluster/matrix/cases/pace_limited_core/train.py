import gc

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(rank):
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 400), nn.Tanh()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in range(400):
        x = torch.randn(512, 64, generator=generator)
        loss = (model(x)[:, 0] - x.mean(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.4f}", flush=True)


def main():
    dist.init_process_group("gloo")
    train(dist.get_rank())
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


main()
