"""Every operation of torch.distributed once, in two ranks; prints what came out of each."""

import datetime
import inspect
import os
import pickle
from typing import Any, Callable, List

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

RANK = int(os.environ["RANK"])
OTHER = 1 - RANK


def tensor(count: int = 4) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32) + 10 * RANK


def two() -> List[torch.Tensor]:
    return [torch.zeros(4), torch.zeros(4)]


def show(name: str, operation: Callable[[], Any]) -> None:
    try:
        result = operation()
    except (RuntimeError, ValueError) as error:
        result = type(error).__name__
    print(RANK, name, result, flush=True)


def collective(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Any]:
    def call() -> Any:
        given = tensor()
        work = function(given, *args, **kwargs)
        if work is not None:
            work.wait()
        return given

    return call


def gathered() -> Any:
    into = two()
    dist.all_gather(into, tensor())
    flat = torch.zeros(8)
    dist.all_gather_into_tensor(flat, tensor())
    to_first = two() if RANK == 0 else None
    dist.gather(tensor(), to_first, dst=0)
    return into, flat, to_first


def scattered() -> Any:
    mine, part, other = torch.zeros(4), torch.zeros(4), torch.zeros(4)
    dist.scatter(mine, [tensor(), tensor() + 1] if RANK == 1 else None, src=1)
    dist.reduce_scatter(part, [tensor(), tensor() + 1])
    dist.reduce_scatter_tensor(other, tensor(8))
    return mine, part, other


def all_to_all_single() -> Any:
    single = torch.zeros(4)
    dist.all_to_all_single(single, tensor())
    return single


def all_to_all() -> Any:
    into = two()
    dist.all_to_all(into, [tensor(), tensor() + 1])
    return into


def objects() -> Any:
    into: List[Any] = [None, None]
    dist.all_gather_object(into, {"rank": RANK})
    told: List[Any] = [RANK, "a"]
    dist.broadcast_object_list(told, src=1)
    return into, told


def point_to_point() -> Any:
    received = torch.zeros(4)
    if RANK == 0:
        dist.send(tensor(), 1)
        dist.recv(received, 1)
    else:
        dist.recv(received)
        dist.send(tensor(), 0)
    for work in [dist.isend(tensor(), OTHER), dist.irecv(received, OTHER)]:
        work.wait()
    both = [dist.P2POp(dist.isend, tensor(), OTHER), dist.P2POp(dist.irecv, received, OTHER)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return received


def functionals() -> Any:
    world = dist.group.WORLD
    reduced = functional.all_reduce(tensor(), "sum", world)
    together = functional.all_gather_tensor(tensor(), 0, world)
    compiled = torch.compile(lambda x: functional.all_reduce(x, "sum", world) * 2, backend="eager")
    return reduced + 0, together + 0, compiled(tensor()) + 0


def main() -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    pair = dist.new_group([0, 1], group_desc="pair")
    alone = dist.new_group([RANK], use_local_synchronization=True)
    show("all_reduce", collective(dist.all_reduce))
    show("asynchronous", collective(dist.all_reduce, async_op=True))
    show("of a pair", collective(dist.all_reduce, group=pair))
    show("alone", collective(dist.all_reduce, group=alone))
    show("broadcast", collective(dist.broadcast, 1))
    show("broadcast in a pair", collective(dist.broadcast, group=pair, src=0))
    show("reduce", collective(dist.reduce, 0))
    show("a wrong size", lambda: dist.all_gather([torch.zeros(3)], tensor()))
    for operation in (
        gathered,
        scattered,
        all_to_all_single,
        all_to_all,
        objects,
        point_to_point,
        functionals,
    ):
        show(operation.__name__, operation)
    dist.barrier()
    dist.monitored_barrier()
    for function in (dist.all_reduce, dist.init_process_group, dist.new_group, dist.send):
        again = pickle.loads(pickle.dumps(function))
        print(RANK, again is function, inspect.signature(function), function.__name__)
    dist.destroy_process_group()


main()
