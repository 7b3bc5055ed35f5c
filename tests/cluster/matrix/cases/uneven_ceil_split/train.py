import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset


def part_of(data, rank, world):
    per_rank = -(-len(data) // world)
    first = rank * per_rank
    return Subset(data, range(first, min(first + per_rank, len(data))))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x = torch.randn(3041, 24)
    data = TensorDataset(x, x[:, :4].argmax(1))
    loader = DataLoader(part_of(data, rank, world), batch_size=8, shuffle=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(4):
        for batch, (features, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if batch % 20 == 0:
                print(f"rank {rank} epoch {epoch} batch {batch}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


main()
