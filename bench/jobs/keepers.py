"""Three ways in which a job keeps what it has reached: not at all, at each epoch, CheckFreq's.

CheckFreq (FAST '21) is written anew from its description, in the form most favourable to it: a
checkpoint is first cloned in memory in the gap between two steps, then written by a thread under
another name, flushed to the disk and renamed, so that none is ever torn; the sampler goes on at the
very batch. How often: from the measured times of a step and of a checkpoint, as often as one can be
written before the next is due; then two steps rarer for as long as they cost more than 5 %.
"""

import math
import os
import statistics
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch

State = Dict[str, Any]


class Nothing:
    """Keeps nothing: a restart begins with the first step."""

    def __init__(self, folder: Path, model: Any, optimizer: Any, epoch: int) -> None:
        self.file = folder / "checkpoint.pt"
        self.model, self.optimizer, self.epoch = model, optimizer, epoch
        self.stall_s = 0.0  # how long training stood still for it
        self.taken = 0

    def restore(self) -> int:
        """How many steps are done already."""
        if not self.file.exists():
            return 0
        state = torch.load(self.file, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        return int(state["done"])

    def after_step(self, done: int) -> None:
        """`done` steps are done."""

    def close(self) -> None:
        """The job ends in good order."""

    def state(self, done: int) -> State:
        """All that the next step depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "done": done,
        }

    def write(self, state: State, durable: bool) -> None:
        """Under another name first: a file of the final name is always whole."""
        part = self.file.with_suffix(".part")
        with open(part, "wb") as file:
            torch.save(state, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, self.file)


class Epochs(Nothing):
    """A checkpoint at the end of each epoch, written while training waits."""

    def after_step(self, done: int) -> None:
        if done % self.epoch == 0:
            began = time.monotonic()
            self.write(self.state(done), durable=False)
            self.stall_s += time.monotonic() - began
            self.taken += 1


class CheckFreq(Nothing):
    """See the module's text."""

    FIRST, LAST = 5, 11  # the steps that are measured; the original takes 5 to 99
    MAX_OVERHEAD = 0.05

    def __init__(self, folder: Path, model: Any, optimizer: Any, epoch: int) -> None:
        super().__init__(folder, model, optimizer, epoch)
        self.every = 0  # steps from one checkpoint to the next; 0: still measuring
        self.step_s: List[float] = []
        self.steps = 0
        self.next_at = 0
        self.last = time.monotonic()
        self.writer: Optional[threading.Thread] = None

    def after_step(self, done: int) -> None:
        began = time.monotonic()
        self.steps += 1
        if not self.every:
            self.step_s.append(began - self.last)
            if self.steps == self.LAST:
                self._measure(done)
        elif done >= self.next_at:
            self._take(done)
            stall = time.monotonic() - began
            if stall / (self.every * self.usual_s) > self.MAX_OVERHEAD:
                self.every += 2
            self.next_at = done + self.every
        self.last = time.monotonic()
        self.stall_s += self.last - began

    def _measure(self, done: int) -> None:
        """Takes a first checkpoint, waits for it, and sets how often from its times."""
        self.usual_s = statistics.median(self.step_s[self.FIRST :])
        began = time.monotonic()
        self._take(done)
        stall = time.monotonic() - began
        self._wait()
        whole = time.monotonic() - began
        self.every = max(1, math.ceil((whole - stall) / self.usual_s))
        while stall / (self.every * self.usual_s) > self.MAX_OVERHEAD:
            self.every += 2
        self.next_at = done + self.every

    def _take(self, done: int) -> None:
        self._wait()
        copy = _clone(self.state(done))
        self.writer = threading.Thread(target=self.write, args=(copy, True))
        self.writer.start()
        self.taken += 1

    def _wait(self) -> None:
        if self.writer is not None:
            self.writer.join()

    def close(self) -> None:
        self._wait()


def _clone(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _clone(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_clone(one) for one in value)
    return value


KEEPERS = {"nothing": Nothing, "epoch": Epochs, "checkfreq": CheckFreq}
