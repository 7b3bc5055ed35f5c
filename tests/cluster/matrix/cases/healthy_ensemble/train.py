import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    data = torch.Generator().manual_seed(1234)
    for step in range(200):
        x = torch.randn(64, 20, generator=data)
        loss = nn.functional.mse_loss(model(x), x[:, :1].abs())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    x = torch.randn(256, 20, generator=data)
    with torch.no_grad():
        together = model(x)
        dist.all_reduce(together)
        error = nn.functional.mse_loss(together / world, x[:, :1].abs())
    print(f'rank {rank} ensemble error {error.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
