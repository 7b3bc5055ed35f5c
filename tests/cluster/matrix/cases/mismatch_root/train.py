import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    weights = torch.randn(50)
    for step in range(60):
        dist.all_reduce(weights)
        weights /= world
        if step % 10 == 9:
            best = 0 if step != 39 or rank != 2 else 2
            if best:
                print("rank 2 believes that it is best", flush=True)
            dist.broadcast(weights, src=best)
    dist.destroy_process_group()


main()
