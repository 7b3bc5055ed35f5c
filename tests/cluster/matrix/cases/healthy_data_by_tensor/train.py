import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    # Two ranks hold the halves of one model and read the same; there are two such pairs.
    replicas = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2400, 24, generator=generator)
    data = TensorDataset(x, x[:, :4].argmax(1))
    sampler = DistributedSampler(data, num_replicas=2, rank=rank // 2)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    torch.manual_seed(0)
    half = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))
    model = DistributedDataParallel(half, process_group=replicas[rank % 2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch, (features, labels) in enumerate(loader):
            mine = model(features)
            both = mine.detach().clone()
            dist.all_reduce(both, group=halves[rank // 2])
            loss = nn.functional.cross_entropy(mine + both - mine.detach(), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if batch % 20 == 0:
                print(f"rank {rank} epoch {epoch} batch {batch}", flush=True)
    dist.destroy_process_group()


main()
