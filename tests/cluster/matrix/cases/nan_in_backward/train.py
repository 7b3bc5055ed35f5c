import torch
import torch.distributed as dist
import torch.nn as nn


def reduce(model, world):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world


def main():
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 12))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(rank)
    for step in range(120):
        x = torch.randn(16, 12, generator=data)
        out = model(x)
        target = out.detach().clone() if rank == 1 and step == 50 else x
        distance = ((out - target) ** 2).sum(1).sqrt()
        loss = distance.mean()
        optimizer.zero_grad()
        loss.backward()
        reduce(model, world)
        optimizer.step()
        if step % 20 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
