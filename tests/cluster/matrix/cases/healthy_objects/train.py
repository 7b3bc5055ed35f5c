import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(20):
        names = [None] * world
        dist.all_gather_object(names, "x" * (10 + 50 * rank))
        settings = [{"lr": 0.1 * step}] if rank == 0 else [None]
        dist.broadcast_object_list(settings, src=0)
        kept = [None] * world if rank == 0 else None
        dist.gather_object({"rank": rank, "loss": [1.0] * rank}, kept, dst=0)
        mine = torch.full((6,), float(rank)) if rank % 2 else torch.full((2, 3), float(rank))
        dist.all_reduce(mine)
        parts = [torch.zeros(4) for _ in range(world)] if rank == 0 else None
        dist.gather(torch.ones(4), parts, dst=0)
        one = torch.zeros(4)
        dist.scatter(one, parts, src=0)
        if rank == 0:
            dist.barrier()
        else:
            dist.barrier()
    dist.destroy_process_group()


main()
