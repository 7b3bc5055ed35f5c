import torch
import torch.distributed as dist


def total(values, rank, step):
    values = values.double() if rank == 0 and step == 30 else values
    if values.dtype == torch.float64:
        print("rank 0 is exact", flush=True)
    dist.all_reduce(values)
    return values.sum()


def main():
    dist.init_process_group("gloo")
    for step in range(60):
        total(torch.ones(100), dist.get_rank(), step)
    dist.destroy_process_group()


main()
