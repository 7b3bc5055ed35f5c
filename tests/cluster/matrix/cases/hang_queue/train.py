import queue
import threading

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def feed(batches, count):
    for _ in range(count):
        batches.put(torch.randn(16, 20))
    print("rank", dist.get_rank(), "has fed", count, flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    batches = queue.Queue(4)
    count = 60 if rank == 0 else 40
    threading.Thread(target=feed, args=(batches, count), daemon=True).start()
    model = DDP(nn.Linear(20, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(60):
        x = batches.get()
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


main()
