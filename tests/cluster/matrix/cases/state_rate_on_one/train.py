import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 1))
    rate = 0.02
    if rank == 2:
        rate = rate / 10
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    data = torch.Generator().manual_seed(rank)
    for step in range(150):
        x = torch.randn(48, 24, generator=data)
        loss = nn.functional.mse_loss(model(x), x[:, :1] * x[:, 1:2])
        optimizer.zero_grad()
        loss.backward()
        flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        dist.all_reduce(flat)
        flat /= world
        start = 0
        for parameter in model.parameters():
            count = parameter.numel()
            parameter.grad.copy_(flat[start : start + count].view_as(parameter))
            start += count
        optimizer.step()
        if step % 50 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
