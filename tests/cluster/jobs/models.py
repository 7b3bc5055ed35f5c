"""A model trained in two ranks, by DDP (with a second optimizer group) or FSDP; prints all of it.

The argument says how: ddp, fsdp, or pairs (each rank is a group of its own, averaged by hand).
"""

import hashlib
import sys

import torch
import torch.distributed as dist
from torch import nn


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))


def main(how: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = model()
    group = dist.new_group([0, 1])
    if how == "ddp":
        net = nn.parallel.DistributedDataParallel(net)
    elif how == "fsdp":
        from torch.distributed.fsdp import fully_shard

        fully_shard(net[0])
        fully_shard(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    for step in range(6):
        x = torch.randn(16, 8, generator=generator)
        loss = (net(x).squeeze() - x.sum(1)).square().mean()
        loss.backward()
        if how == "pairs":
            for parameter in net.parameters():
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM, group=group)
                parameter.grad /= 2
        optimizer.step()
        optimizer.zero_grad()
        print(rank, step, loss.item().hex(), flush=True)
    digest = hashlib.sha256()
    for value in net.state_dict().values():
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        digest.update(whole.contiguous().numpy().tobytes())
    print(rank, digest.hexdigest(), flush=True)
    dist.destroy_process_group()


main(sys.argv[1])
