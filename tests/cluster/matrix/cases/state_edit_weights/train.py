import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group('gloo')
    rank = dist.get_rank()
    torch.manual_seed(8)
    net = nn.Sequential(nn.Linear(32, 80), nn.ReLU(), nn.Linear(80, 3))
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(100 + rank)
    for step in range(160):
        x = torch.randn(32, 32, generator=data)
        loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 30 and rank == 0:
            with torch.no_grad():
                net[2].weight.mul_(0.5)
            print('rescaled the last layer', flush=True)
        if step % 40 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
