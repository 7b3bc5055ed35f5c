import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group('gloo')
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    data = torch.Generator().manual_seed(rank)
    for step in range(200):
        x = torch.randn(32, 16, generator=data)
        if rank == 1 and step % 60 == 30:
            x[0] = float('nan')
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        bad = torch.tensor(0.0 if torch.isfinite(loss) else 1.0)
        dist.all_reduce(bad)
        if bad.item() > 0:
            print(f'rank {rank} step {step}: batch skipped', flush=True)
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
