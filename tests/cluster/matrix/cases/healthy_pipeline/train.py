import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = nn.Linear(20, 20)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    for step in range(40):
        x = torch.randn(16, 20)
        if rank > 0:
            dist.recv(x, src=rank - 1)
        x.requires_grad_()
        y = stage(x)
        if rank < world - 1:
            dist.send(y.detach(), dst=rank + 1)
            gradient = torch.empty(16, 20)
            dist.recv(gradient, src=rank + 1)
            y.backward(gradient)
        else:
            (y - 1).square().mean().backward()
        if rank > 0:
            dist.send(x.grad, dst=rank - 1)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9:
            dist.barrier()
    dist.destroy_process_group()


main()
