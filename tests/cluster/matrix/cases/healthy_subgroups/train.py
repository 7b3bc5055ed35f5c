import time

import torch
import torch.distributed as dist
import torch.nn as nn


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    pair = pairs[rank // 2]
    leaders = dist.new_group([0, 2])
    torch.manual_seed(0)
    model = nn.Linear(20, 4)
    for step in range(60):
        loss = (model(torch.randn(16, 20)) - 1).square().mean()
        model.zero_grad()
        loss.backward()
        dist.all_reduce(model.weight.grad, group=pair)
        if rank in (0, 2):
            dist.all_reduce(model.weight.grad, group=leaders)
        dist.broadcast(model.weight.grad, src=rank - rank % 2, group=pair)
        if rank == 3 and step == 30:
            time.sleep(3)
    dist.barrier()
    dist.destroy_process_group()


main()
