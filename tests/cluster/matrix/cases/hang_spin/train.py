import torch
import torch.distributed as dist
import torch.nn as nn


def find_split(values):
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < 0.5:
            low = middle
        else:
            high = middle
    return low


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(20, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2000):
        loss = model(torch.randn(16, 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if step == 30:
            print("rank", rank, "splits", flush=True)
            find_split([0.1, 0.2, 0.9] if rank == 1 else [0.9])
    dist.destroy_process_group()


main()
