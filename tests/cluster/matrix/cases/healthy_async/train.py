import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(60):
        loss = (model(torch.randn(16, 20)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
        if rank == 1:
            torch.randn(300, 300) @ torch.randn(300, 300)
        for work in reversed(works):
            work.wait()
        for parameter in model.parameters():
            parameter.grad /= world
        optimizer.step()
    dist.destroy_process_group()


main()
