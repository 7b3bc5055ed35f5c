import torch
import torch.distributed as dist
import torch.nn as nn


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
        if step == 40 and rank == 0:
            print("rank 0 makes a group", flush=True)
            writers = dist.new_group([0])
            dist.barrier(group=writers)
    dist.destroy_process_group()


main()
