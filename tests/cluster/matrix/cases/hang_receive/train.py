import torch
import torch.distributed as dist
import torch.nn as nn


def share_mask(rank):
    mask = torch.ones(20)
    if rank == 2:
        print("rank 2 receives", flush=True)
        dist.recv(mask, src=1)
    return mask


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(20, 4)
    for step in range(400):
        loss = model(torch.randn(16, 20)).square().mean()
        model.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        if step == 40:
            share_mask(rank)
    dist.destroy_process_group()


main()
