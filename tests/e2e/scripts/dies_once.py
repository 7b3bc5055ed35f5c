"""Trains with all that is random, and dies at the steps in DEATHS by the signal SIGNAL, each once."""

import os
import random
import signal
import sys

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

deaths = [int(word) for word in os.environ.get("DEATHS", "").split()]
again = os.environ.get("AGAIN") == "1"


def may_die(step):
    marker = f"died.{step}"
    if step in deaths and (again or not os.path.exists(marker)):
        open(marker, "w").close()
        os.kill(os.getpid(), getattr(signal, os.environ.get("SIGNAL", "SIGKILL")))


def train(net, opt, loader, log):
    seen = 0
    for epoch in range(4):
        total = 0.0
        for a, b in loader:
            loss = F.cross_entropy(net(a), b) * (1 + random.random() * np.random.rand())
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += 1
            total += loss.item()
            log.write(f"{seen},{loss.item()}\n")
            print("step", seen, file=sys.stderr)
            may_die(seen)
        print("epoch", epoch, total, flush=epoch % 2 == 0)
    return seen


def main():
    torch.manual_seed(3)
    random.seed(4)
    np.random.seed(5)
    x = torch.randn(192, 16)
    y = (x.sum(1) > 0).long()
    net = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 2)
    )
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    with open("log.csv", "w") as log:
        seen = train(net, opt, loader, log)
    lines = sum(1 for _ in open("log.csv"))
    print("RESULT", [p.double().sum().item().hex() for p in net.parameters()], seen, lines)


main()
