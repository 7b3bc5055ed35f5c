"""Rank 0 stays away from a collective until both were seen to stall: rank 1, a child process that
multiprocessing has started, waits in it. Both end with an exception."""

import multiprocessing
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 0:
        stay_away()
    dist.all_reduce(torch.ones(3))
    # Else a thread of gloo may drop the tensor after Python has ended, and abort the process.
    dist.barrier()
    raise ValueError("the end")


def stay_away() -> None:
    """Until one ring has told that its rank waits in the second call, and the other of this."""
    waits = b'"waiting": {"group": "0", "sequence": 1, "operation": "all_reduce"}'
    folder = Path(os.environ["PARAMEDIC_RING_DIR"])
    found = set()
    while len(found) < 2:
        for path in folder.glob("*.ring"):
            text = path.read_bytes()
            found.update(needle for needle in (waits, b'"function": "stay_away"') if needle in text)
        time.sleep(0.1)


if __name__ == "__main__":
    if os.environ["RANK"] == "1":
        child = multiprocessing.get_context("spawn").Process(target=main)
        child.start()
        child.join()
        sys.exit(child.exitcode)
    main()
