import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def wait_for_licence():
    print("rank 1 waits for its licence", flush=True)
    while True:
        time.sleep(60)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2000):
        if step == 30 and rank == 1:
            wait_for_licence()
        x = torch.randn(16, 20)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


main()
