import socket
import time

import torch
import torch.distributed as dist
from torch import nn


def licence():
    a, b = socket.socketpair()
    a.sendall(b"?")
    return a.recv(16)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = nn.Linear(50, 10)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    g = torch.Generator().manual_seed(rank)
    for step in range(500):
        x = torch.randn(32, 50, generator=g)
        loss = nn.functional.cross_entropy(net(x), x[:, :10].argmax(1))
        opt.zero_grad()
        loss.backward()
        if rank == 2 and step == 150:
            print("rank 2 asks for a licence", flush=True)
            licence()
        flat = torch.cat([p.grad.flatten() for p in net.parameters()])
        work = dist.all_reduce(flat, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)
        at = 0
        for p in net.parameters():
            p.grad.copy_(flat[at:at + p.numel()].view_as(p) / world)
            at += p.numel()
        opt.step()
        if step % 25 == 0:
            print("rank", rank, "step", step, "%.4f" % loss.item(), flush=True)
    dist.destroy_process_group()


main()
