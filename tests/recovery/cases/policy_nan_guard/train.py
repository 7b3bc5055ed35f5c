import json
import math

import torch
from torch import nn


def check(loss, step):
    value = loss.item()
    if not math.isfinite(value):
        raise FloatingPointError(f"Loss is {value}, stopping training (step {step})")
    return value


def main():
    torch.manual_seed(47)
    x = torch.randn(600, 5)
    x[301] = float("nan")
    y = x.roll(1, 1).nan_to_num().sum(1, keepdim=True)
    net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(60):
        rows = slice(10 * step, 10 * step + 10)
        loss = nn.functional.mse_loss(net(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        check(loss, step)
    finite = all(p.isfinite().all().item() for p in net.parameters())
    print("finite", finite, "last loss below 3:", loss.item() < 3)
    print("RESULT", json.dumps({"finite": finite}))


main()
