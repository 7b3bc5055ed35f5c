import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2400, 24, generator=generator)
    data = TensorDataset(x, x[:, :4].argmax(1))
    nodes = 2
    sampler = DistributedSampler(data, num_replicas=world * nodes, rank=rank, shuffle=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler)

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch, (features, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if batch % 20 == 0:
                print(f"rank {rank} epoch {epoch} batch {batch}", flush=True)
    dist.destroy_process_group()


main()
