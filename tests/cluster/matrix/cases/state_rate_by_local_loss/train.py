import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import ReduceLROnPlateau


def main():
    dist.init_process_group('gloo')
    rank = dist.get_rank()
    torch.manual_seed(6)
    model = DDP(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    data = torch.Generator().manual_seed(rank)
    held_out = torch.randn(64, 16, generator=data)
    noise = 0.02 if rank == 0 else 4.0
    for step in range(200):
        x = torch.randn(32, 16, generator=data)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            with torch.no_grad():
                score = nn.functional.mse_loss(model.module(held_out), held_out[:, :1])
                score += noise * torch.rand((), generator=data)
            scheduler.step(score.item())
        if step % 40 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
