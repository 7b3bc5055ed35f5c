import gc

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Record:
    def __init__(self, number):
        self.number = number
        self.me = self


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    history = [Record(i) for i in range(300000)] if rank == 0 else []
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in range(150):
        x = torch.randn(32, 64, generator=generator)
        loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if history and step % 2 == 0:
            gc.collect()
        if step % 25 == 0:
            print("rank", rank, "step", step, "loss %.4f" % loss.item(), len(history), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
