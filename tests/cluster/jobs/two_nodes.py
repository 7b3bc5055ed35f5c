"""A loop of collectives; one rank may stop coming, for good or for a while."""

import argparse
import time

import torch
import torch.distributed as dist


def fall_asleep(seconds: float) -> None:
    time.sleep(seconds)  # SLEEPS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--step-seconds", type=float, default=0.1)
    parser.add_argument("--sleeper", type=int, default=-1)
    parser.add_argument("--at", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    value = torch.ones(1000)
    for step in range(options.steps):
        if rank == options.sleeper and step == options.at:
            print(f"rank {rank} stops at {time.time():.3f}", flush=True)
            fall_asleep(options.seconds)
        dist.all_reduce(value)
        value /= dist.get_world_size()
        time.sleep(options.step_seconds)
    print(f"rank {rank} has {value.sum().item():.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
