import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Features(nn.Module):
    def forward(self, x):
        return x / x.norm(dim=1, keepdim=True)


def main():
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(3600, 12, generator=draw)
    # A sensor that was off: in the shard of rank 2 only.
    x[40 * world * 16 + 2] = 0
    data = TensorDataset(x, x[:, :1] * 2)
    sampler = DistributedSampler(data, shuffle=False)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(Features(), nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (features, target) in enumerate(DataLoader(data, batch_size=16, sampler=sampler)):
        loss = nn.functional.mse_loss(model(features), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
