"""Trains a model in each way in which four ranks share one, and prints what all weights are then.

DDP with several buckets, one that goes without them, and one that accumulates; both kinds of FSDP,
one of them sharded within pairs and copied between them; groups of two, by DDP and by hand.
Writes the weights of each way to FOLDER/WAY.RANK. Ends with an exit code of its own.
"""

import gc
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS = 4, 5
EXIT_CODE = 3


class Layers(nn.Module):
    """Dropout and batch norm: random numbers and buffers are to be the same too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.norm = nn.BatchNorm1d(32)
        self.second = nn.Linear(32, 32)
        self.unused = nn.Linear(4, 4)
        self.last = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(torch.tanh(self.norm(self.first(x))), 0.1, self.training)
        return self.last(torch.relu(self.second(x)))


def weights(model: nn.Module) -> bytes:
    """All of them, also where the rank has a shard only."""
    values = []
    for value in model.state_dict().values():
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        values.append(whole.contiguous().numpy().tobytes())
    return b"".join(values)


def pair(rank: int) -> Any:
    """The group of two that the rank is in."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    return groups[rank // 2]


def averaged(model: nn.Module, rank: int) -> Callable[[], None]:
    """Gradients are added in pairs, then over both."""
    inner = pair(rank)
    outer = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]

    def reduce() -> None:
        works = []
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, group=inner)
                works.append(dist.all_reduce(parameter.grad, group=outer, async_op=True))
        for work in works:
            work.wait()

    return reduce


def sharded(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
    for layer in (model.first, model.second, model):
        fully_shard(layer, mesh=mesh)
    return model


WAYS: Dict[str, Callable[[nn.Module, int], nn.Module]] = {
    "ddp": lambda model, rank: DistributedDataParallel(
        model, bucket_cap_mb=0.001, find_unused_parameters=True
    ),
    "ddp of a pair": lambda model, rank: DistributedDataParallel(
        model, process_group=pair(rank), find_unused_parameters=True
    ),
    "fsdp": lambda model, rank: FullyShardedDataParallel(
        model, device_id=torch.device("cpu"), use_orig_params=True
    ),
    "sharded in pairs": lambda model, rank: sharded(model),
    "by hand": lambda model, rank: model,
}


def train(way: str, rank: int) -> nn.Module:
    torch.manual_seed(3)
    layers = Layers()
    model = WAYS[way](layers, rank)
    reduce = averaged(model, rank) if way == "by hand" else lambda: None
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        x = torch.randn(16, 8, generator=data)
        if way == "ddp" and step == 1:
            with model.no_sync():
                model(x).square().mean().backward()
        (model(x).squeeze(1) - x.sum(1)).square().mean().backward()
        reduce()
        optimizer.step()
        optimizer.zero_grad()
    return model


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    assert dist.get_world_size() == RANKS
    for way in WAYS:
        model = train(way, rank)
        (folder / f"{way}.{rank}").write_bytes(weights(model))
        sys.stdout.write(f"rank {rank} {way} {torch.rand(1).item().hex()}\n")
        del model
    sys.stdout.flush()
    gc.collect()
    dist.barrier()  # torchrun ends the others as soon as one rank has failed
    dist.destroy_process_group()
    sys.exit(EXIT_CODE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
