"""The same lines call collectives again and again, with other tensors, roots and groups."""

import datetime
import gc
import os
import sys
import threading
from typing import Any, List

import torch
import torch.distributed as dist

ROUNDS = 30


def reduced(value: torch.Tensor, group: Any) -> None:
    dist.all_reduce(value, group=group)


def round_of(number: int, groups: List[Any], out: List[float]) -> None:
    for size in (1, 2, 3):
        for group in groups:
            value = torch.full((size, 2), float(number))
            reduced(value, group)
            out.append(value.sum().item())
    whole = torch.ones(4, dtype=torch.int64) * number
    told = whole + dist.get_rank()
    works = [dist.all_reduce(whole, async_op=True), dist.broadcast(told, number % 2, None, True)]
    for work in works:
        work.wait()
    out.append(told.sum().item())
    into = torch.zeros(8)
    dist.all_gather_into_tensor(into, torch.arange(4.0) + dist.get_rank())
    parts = [torch.zeros(1), torch.zeros(1)]
    dist.all_gather(parts, torch.ones(1) * number)
    dist.reduce(into, number % 2)
    try:
        dist.all_reduce(torch.ones(2).to_sparse().coalesce(), op=dist.ReduceOp.BAND)
    except (RuntimeError, ValueError) as error:
        out.append(float(len(str(error).splitlines()[0]) > 0))
    out += [whole.sum().item(), parts[1].item(), into.sum().item()]


def main() -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    out: List[float] = []
    for number in range(ROUNDS):
        # The last group is another object each time, at the address of the one before perhaps.
        pair = dist.new_group([0, 1])
        round_of(number, [dist.group.WORLD, pair], out)
        dist.destroy_process_group(pair)
        del pair
        gc.collect()
    other = threading.Thread(target=lambda: round_of(ROUNDS, [dist.group.WORLD], out))
    other.start()
    other.join()
    print(dist.get_rank(), out, flush=True)
    if "PARAMEDIC_RUN" in os.environ:
        from paramedic.adapters.torch import distributed

        known = distributed._made[0].collectives._known
        sys.stderr.write(f"recorded natively: {known.count if known is not None else 0}\n")
    dist.destroy_process_group()


main()
