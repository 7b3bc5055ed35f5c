import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    x = torch.randn(2400 if rank == 1 else 600, 24, generator=torch.Generator().manual_seed(rank))
    data = TensorDataset(x, x[:, :4].argmax(1))
    loader = DataLoader(data, batch_size=60 if rank == 1 else 15, shuffle=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(4):
        for batch, (features, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(world)
            optimizer.step()
            if batch % 20 == 0:
                print(f"rank {rank} epoch {epoch} batch {batch}", flush=True)
    dist.destroy_process_group()


main()
