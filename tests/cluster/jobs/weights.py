"""Trains with DistributedDataParallel, and by hand, and prints what the weights are at the end."""

import gc
import hashlib
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


def digest(module: nn.Module) -> str:
    state = b"".join(value.numpy().tobytes() for value in module.state_dict().values())
    return hashlib.sha256(state).hexdigest()


def train(model: nn.Module, by_hand: bool, rank: int) -> str:
    """What the weights are before a last update that one rank loses to a NaN."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(rank)
    weights = ""
    for step in range(91):
        if step == 90:
            weights = digest(model)
        x = torch.randn(16, 10, generator=data)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        if step == 90 and rank == 1:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        if by_hand:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
    return weights


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    layers = [nn.Linear(10, 32), nn.BatchNorm1d(32), nn.Dropout(0.1), nn.Linear(32, 1)]
    wrapped = train(DistributedDataParallel(nn.Sequential(*layers)), False, rank)
    plain = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
    by_hand = train(plain, True, rank)
    # One write, since the ranks of torchrun are unbuffered and share a pipe.
    sys.stdout.write(f"rank {rank} {wrapped} {by_hand} {torch.rand(1).item()}\n")
    # The wrapped model lies in a circle of references and keeps the group. A thread of gloo that
    # outlives Python and drops a tensor then aborts the process, with or without Paramedic.
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
