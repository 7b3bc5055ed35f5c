import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def save(model, path):
    """Written in pieces, as to a slow disk."""
    torch.save(model.state_dict(), path)
    with open(path + ".big", "wb") as file:
        for _ in range(22):
            file.write(os.urandom(1 << 20))
            file.flush()
            time.sleep(0.3)
    os.remove(path + ".big")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Linear(20, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for step in range(40):
            loss = (model(torch.randn(16, 20)) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            save(model, "model.pt")
        dist.barrier()
    dist.destroy_process_group()


main()
