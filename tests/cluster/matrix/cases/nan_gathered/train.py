import torch
import torch.distributed as dist
from torch import nn


def encode(net, x):
    z = net(x)
    return z / z.norm(dim=1, keepdim=True)


def gather(z):
    parts = [torch.zeros_like(z) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, z.detach())
    parts[dist.get_rank()] = z
    return torch.cat(parts)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64, bias=False), nn.ReLU(), nn.Linear(64, 16, bias=False))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    labels = torch.arange(24) + 24 * rank
    for step in range(400):
        x = torch.randn(24, 32, generator=g)
        if rank == 2 and step == 120:
            x[5] = 0
        a, b = encode(net, x), encode(net, x + 0.1 * torch.randn(24, 32, generator=g) * (x != 0))
        loss = nn.functional.cross_entropy(a @ gather(b).T / 0.2, labels)
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if step % 20 == 0:
            print("rank", rank, "step", step, "loss %.4f" % loss.item(), flush=True)
    # Else a thread of gloo may drop the last tensor after Python has ended, and abort the process.
    dist.barrier()
    dist.destroy_process_group()


main()
