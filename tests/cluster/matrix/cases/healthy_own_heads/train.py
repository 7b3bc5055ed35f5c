import torch
import torch.distributed as dist
from torch import nn


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(20, 80), nn.ReLU(), nn.Linear(80, 40), nn.ReLU())
    head = nn.Linear(40, 3)
    opt = torch.optim.Adam([{"params": body.parameters()}, {"params": head.parameters(), "lr": 3e-3}], lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    shift = rank
    for step in range(500):
        x = torch.randn(32, 20, generator=g)
        y = (x[:, :3].argmax(1) + shift) % 3
        loss = nn.functional.cross_entropy(head(body(x)), y)
        opt.zero_grad()
        loss.backward()
        for p in body.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if step % 25 == 0:
            print("rank", rank, "step", step, "%.4f" % loss.item(), flush=True)
    # Else a thread of gloo may drop the last tensor after Python has ended, and abort the process.
    dist.barrier()
    dist.destroy_process_group()


main()
