import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Linear(20, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(120):
        loss = (model(torch.randn(16, 20)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (40, 80) and rank == 1:
            time.sleep(9)
    dist.destroy_process_group()


main()
