import os
import signal

import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(20, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2000):
        loss = model(torch.randn(16, 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if step == 30 and rank == 0:
            print("rank 0 is stopped", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
    dist.destroy_process_group()


main()
