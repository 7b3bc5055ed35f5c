"""A rank that trains the MLP of train.py with DistributedDataParallel and says what a step took.

Usage, under torchrun: ranks.py time|count STEPS FOLDER. Each rank writes FOLDER/RANK:
`time`: milliseconds of a step after the warm-up, of wall time, of the processor in the thread that
trains, and of it in the whole process; `count`: bytecode instructions of that thread in each step,
by file.
"""

import gc
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Dict

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from train import mlp, step_of, stretch_time

# Steps until the first samples are over, and until one step in sixteen is looked at for its
# fingerprints: of the first ones all are.
WARM_UP = 600


def clocks() -> Dict[str, int]:
    return {
        "wall": time.perf_counter_ns(),
        "thread": time.thread_time_ns(),
        "process": time.process_time_ns(),
    }


def count_into(counts: "Counter[str]") -> None:
    """Counts what runs in functions that are called from here on."""

    def on_instruction(frame: Any, event: str, _: Any) -> Any:
        if event == "opcode":
            counts[frame.f_code.co_filename] += 1
        return on_instruction

    def on_call(frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return on_instruction

    sys.settrace(on_call)


def measure(what: str, steps: int, folder: Path) -> None:
    model, batch = mlp()
    step = step_of(DistributedDataParallel(model), batch)
    counts: "Counter[str]" = Counter()
    for _ in range(WARM_UP):
        step()
    if what == "count":
        count_into(counts)
    before = clocks()
    for _ in range(steps):
        step()
    after = clocks()
    sys.settrace(None)
    found: Dict[str, float] = {name: (after[name] - before[name]) / steps / 1e6 for name in after}
    if what == "count":
        found = {file: number / steps for file, number in counts.items()}
    (folder / str(dist.get_rank())).write_text(json.dumps(found))


def main() -> None:
    what, steps, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    stretch_time()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    measure(what, steps, folder)
    # The wrapped model lies in a circle of references and keeps the group. A thread of gloo that
    # outlives Python and drops a tensor then aborts the process, with or without Paramedic.
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
