import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Linear(20, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []
    for step in range(400):
        loss = model(torch.randn(16, 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 1 and step > 30:
            kept.append(torch.ones(8 << 20))
            print("rank 1 keeps", len(kept), flush=True)
    dist.destroy_process_group()


main()
