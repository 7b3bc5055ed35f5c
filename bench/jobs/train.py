"""Trains one of three small models for some steps and writes each step's wall time.

Usage: train.py mlp|cnn|transformer STEPS OUT.json. What the benchmark compares is the median of
these times, measured in the same way with and without Paramedic. BENCH_SLOWDOWN says how many times
slower than on its own the process runs (under callgrind): what Paramedic limits by time is made as
much longer, so that a step takes the way that it takes without callgrind.
"""

import json
import os
import sys
import time
from typing import Callable, List, Tuple

import torch
from torch import nn


def mlp() -> Tuple[nn.Module, Callable[[], Tuple[torch.Tensor, torch.Tensor]]]:
    layers: List[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(256, 256), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    return model, lambda: (torch.randn(128, 256), torch.randint(0, 10, (128,)))


def cnn() -> Tuple[nn.Module, Callable[[], Tuple[torch.Tensor, torch.Tensor]]]:
    def block(i: int, o: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())

    model = nn.Sequential(
        block(3, 16), nn.MaxPool2d(2), block(16, 32), nn.MaxPool2d(2), block(32, 64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    return model, lambda: (torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,)))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(200, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 200)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embed(ids)))[:, -1]


def transformer() -> Tuple[nn.Module, Callable[[], Tuple[torch.Tensor, torch.Tensor]]]:
    return Transformer(), lambda: (torch.randint(0, 200, (16, 32)), torch.randint(0, 200, (16,)))


def step_of(
    model: nn.Module, batch: Callable[[], Tuple[torch.Tensor, torch.Tensor]]
) -> Callable[[], None]:
    """A step of the loop below, for jobs that do other things between their steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def stretch_time() -> None:
    if "PARAMEDIC_RUN" in os.environ:
        from paramedic.adapters.torch import quick

        slowdown = int(os.environ.get("BENCH_SLOWDOWN", "1"))
        quick.STRETCH_NS *= slowdown
        quick.TICK_NS *= slowdown


def main() -> None:
    stretch_time()
    kind, steps, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, batch = {"mlp": mlp, "cnn": cnn, "transformer": transformer}[kind]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step_s = []
    for _ in range(steps):
        started = time.perf_counter()
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step_s.append(time.perf_counter() - started)
    with open(out, "w") as file:
        json.dump(step_s, file)


if __name__ == "__main__":
    main()
