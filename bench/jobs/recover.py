"""Trains a model of models.py and meets one fault in the middle of an epoch.

Usage: recover.py MODEL FOLDER KEEPER STEPS EPOCH CRASH. At step CRASH, between the forward and the
backward pass, predictions are written into FOLDER/samples, which is not there the first time. Each
event is a line of FOLDER/events.txt with the time of the machine's monotonic clock, which a restart
can be measured by.
"""

import sys
import time
from pathlib import Path

import torch
from keepers import KEEPERS
from models import MODELS
from torch.nn import functional as F


def batch_at(step: int, epoch: int, samples: int, size: int) -> torch.Tensor:
    """The rows of a step: shuffled anew for each epoch, the same in each run."""
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(step // epoch))
    first = step % epoch * size
    return order[first : first + size]


def write_samples(folder: Path, step: int, predicted: torch.Tensor) -> None:
    with open(folder / f"{step}.txt", "w") as file:
        file.write(f"{predicted.argmax(1).flatten().tolist()}\n")


def main() -> None:
    name, place, kept, steps, epoch, crash = sys.argv[1:]
    folder, epoch_steps = Path(place), int(epoch)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    task = MODELS[name]()
    keeper = KEEPERS[kept](folder, task.model, task.optimizer, epoch_steps)
    done = keeper.restore()
    with open(folder / "events.txt", "a", buffering=1) as events:
        events.write(f"begin {time.monotonic()}\n")
        for step in range(done, int(steps)):
            began = time.monotonic()
            rows = batch_at(step, epoch_steps, len(task.inputs), task.batch)
            predicted = task.model(task.inputs[rows])
            loss = F.cross_entropy(predicted, task.targets[rows])
            if step == int(crash):
                events.write(f"fault {time.monotonic()}\n")
                write_samples(folder / "samples", step, predicted)
            task.optimizer.zero_grad()
            loss.backward()
            task.optimizer.step()
            keeper.after_step(step + 1)
            ended = time.monotonic()
            events.write(f"step {step} {began} {ended} {loss.item()!r} {keeper.stall_s}\n")
        keeper.close()


if __name__ == "__main__":
    main()
