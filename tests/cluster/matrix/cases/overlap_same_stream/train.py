import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for number in range(worker, 960, workers):
            generator = torch.Generator().manual_seed(number)
            features = torch.randn(24, generator=generator)
            yield features, features[:4].argmax()



def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    loader = DataLoader(Stream(), batch_size=16, num_workers=1)

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        for batch, (features, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if batch % 20 == 0:
                print(f"rank {rank} epoch {epoch} batch {batch}", flush=True)
    dist.destroy_process_group()


main()
