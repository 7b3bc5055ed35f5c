import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    """Shards of different length, as files have them."""

    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.rank)
        for _ in range(480 + 64 * (self.rank == 1)):
            features = torch.randn(24, generator=generator)
            yield features, features[:4].argmax()

    def __len__(self):
        return 480 + 64 * (self.rank == 1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    loader = DataLoader(Stream(rank, world), batch_size=16)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(4):
        for batch, (features, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if batch % 10 == 0:
                print(f"rank {rank} epoch {epoch} batch {batch}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


main()
