import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    for step in range(600):
        x = torch.randn(64, 64, generator=generator)
        loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 40 == 39:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            time.sleep(0.7)
        if step % 50 == 0:
            print("rank", rank, "step", step, "loss %.4f" % loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
