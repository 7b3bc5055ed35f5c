import torch
import torch.distributed as dist
import torch.nn as nn


def average(model, world):
    for parameter in model.parameters():
        if parameter.dim() > 1:
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(world)


def main():
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(20, 60), nn.ReLU(), nn.Linear(60, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    data = torch.Generator().manual_seed(rank)
    for step in range(160):
        x = torch.randn(32, 20, generator=data)
        loss = nn.functional.mse_loss(model(x), x[:, :1].abs())
        optimizer.zero_grad()
        loss.backward()
        average(model, world)
        optimizer.step()
        if step % 40 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
