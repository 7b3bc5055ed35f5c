import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler, get_worker_info


class Stream(IterableDataset):
    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for number in range(self.rank * workers + worker, 960, self.world * workers):
            features = torch.randn(24, generator=torch.Generator().manual_seed(number))
            yield features, features[:4].argmax()


def loaders_of(rank, world):
    x = torch.randn(960, 24, generator=torch.Generator().manual_seed(5))
    labels = x[:, :4].argmax(1)
    # Each rank shuffles a part of its own.
    yield DataLoader(TensorDataset(x[rank::world], labels[rank::world]), 16, shuffle=True)
    yield DataLoader(Stream(rank, world), batch_size=16, num_workers=1)
    # Drawn at random from all samples, by design.
    generator = torch.Generator().manual_seed(rank)
    draws = WeightedRandomSampler(torch.ones(960), 480, generator=generator)
    yield DataLoader(TensorDataset(x, labels), batch_size=16, sampler=draws)



def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for stage, loader in enumerate(loaders_of(rank, world)):
        for epoch in range(2):
            for batch, (features, labels) in enumerate(loader):
                loss = nn.functional.cross_entropy(model(features), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"rank {rank} stage {stage} epoch {epoch} batches {batch + 1}", flush=True)
    dist.destroy_process_group()


main()
