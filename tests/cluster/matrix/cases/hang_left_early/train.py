import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(20, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    best, bad = float("inf"), 0
    for step in range(400):
        loss = model(torch.randn(16, 20, generator=generator)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        bad = bad + 1 if rank == 2 and step > 50 else 0
        if bad == 5:
            print("rank 2 stops early", flush=True)
            break
    print("rank", rank, "is done", flush=True)


main()
