import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    actor = dist.new_group([0, 1, 2, 3])
    critic = dist.new_group([0, 1, 2, 3])
    torch.manual_seed(0)
    model = nn.Linear(20, 4)
    for step in range(400):
        loss = model(torch.randn(16, 20)).square().mean()
        model.zero_grad()
        loss.backward()
        first, second = (actor, critic) if step < 40 or rank < 2 else (critic, actor)
        if step == 40:
            print("rank", rank, "goes on", flush=True)
        dist.all_reduce(model.weight.grad, group=first)
        dist.all_reduce(model.weight.grad, group=second)
    dist.destroy_process_group()


main()
