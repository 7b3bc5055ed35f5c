import os
import time

import torch
import torch.distributed as dist
from torch import nn


def cached(name):
    while os.path.exists(name + ".lock"):
        time.sleep(0.1)
    return name


def main():
    dist.init_process_group("gloo")
    stage, last = dist.get_rank(), dist.get_world_size() - 1
    torch.manual_seed(stage)
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    g = torch.Generator().manual_seed(0)
    for step in range(600):
        x = torch.randn(32, 64, generator=g)
        if stage:
            dist.irecv(x, stage - 1).wait()
            x.requires_grad_()
        if stage == 1 and step == 200:
            print("stage 1 opens its cache", flush=True)
            open("cache.lock", "w").close()
            cached("cache")
        y = net(x)
        work = [] if stage == last else [dist.isend(y.detach(), stage + 1)]
        if stage == last:
            loss = (y - 0.1).pow(2).mean()
            loss.backward()
            if step % 30 == 0:
                print("step", step, "%.4f" % loss.item(), flush=True)
        else:
            grad = torch.empty_like(y)
            dist.irecv(grad, stage + 1).wait()
            y.backward(grad)
        if stage:
            work.append(dist.isend(x.grad, stage - 1))
        for one in work:
            one.wait()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


main()
