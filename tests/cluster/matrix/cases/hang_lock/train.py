import threading

import torch
import torch.distributed as dist
import torch.nn as nn

LOCK = threading.Lock()


def average(model, world):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world


def log_metrics(step, loss):
    with LOCK:
        if step == 40 and dist.get_rank() == 2:
            print("rank 2 logs twice", flush=True)
            log_metrics(step, loss)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(20, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2000):
        loss = model(torch.randn(16, 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average(model, dist.get_world_size())
        optimizer.step()
        log_metrics(step, loss.item())
    dist.destroy_process_group()


main()
