import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

LABELS = {0: "cat", 1: "dog"}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Linear(20, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2000):
        loss = model(torch.randn(16, 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 40:
            print("rank", rank, "names its label", flush=True)
            name = LABELS[rank + 1]
    dist.destroy_process_group()


main()
