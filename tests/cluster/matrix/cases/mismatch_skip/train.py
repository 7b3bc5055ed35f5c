import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 2))
    for step in range(60):
        x = torch.randn(16, 20)
        if rank == 1 and step == 40:
            x[0, 0] = float("nan")
        loss = model(x).square().mean()
        model.zero_grad()
        loss.backward()
        if not torch.isfinite(loss):
            print("rank 1 skips a batch", flush=True)
            continue
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        done = torch.ones(1)
        dist.all_reduce(done)
        if rank == 1 and step == 41:
            print("rank 1 is past it", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
