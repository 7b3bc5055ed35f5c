import json
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn

FAULT_AT = 23
real = dist.all_reduce
error = dist.DistBackendError("NCCL error: remote process exited or there was a network error")
plan = [error if n == FAULT_AT else mock.DEFAULT for n in range(500)]
dist.all_reduce = mock.Mock(wraps=real, side_effect=plan)


def average_gradients(net, ranks):
    for p in net.parameters():
        p.grad.mul_(1.5)
        dist.all_reduce(p.grad)
        p.grad.div_(1.5 * ranks)


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(14)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    updates = 0
    for episode in range(15):
        states = torch.randn(10, 3)
        loss = (net(states).squeeze(1) - states.prod(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        average_gradients(net, dist.get_world_size())
        opt.step()
        updates += 1
        if episode % 5 == 4:
            print(episode + 1, f"{loss.item():.5f}")
    dist.destroy_process_group()
    print("COUNTS", json.dumps({"updates": updates}))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))


main()
