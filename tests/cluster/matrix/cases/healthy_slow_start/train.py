import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def tokenize(lines):
    counts = {}
    for line in lines:
        for word in line.split():
            counts[word] = counts.get(word, 0) + len(word)
    return counts


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        for _ in range(14):
            tokenize(["the quick brown fox jumps over the lazy dog"] * 150000)
    dist.barrier()
    model = DDP(nn.Linear(20, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(60):
        loss = (model(torch.randn(16, 20)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


main()
