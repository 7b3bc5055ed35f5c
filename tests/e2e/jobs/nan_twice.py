"""A batch that makes the loss NaN, later a gradient that is NaN while its loss is not; `skip` as
argument leaves both iterations out."""

import json
import sys

import torch
from torch import nn


def penalty(prediction, step):
    # At zero the root has no finite slope, though its value is fine.
    scale = 0.0 if step == 44 else 1.0
    return (scale * prediction.square().mean()).sqrt()


def main():
    torch.manual_seed(53)
    x = torch.randn(600, 5)
    x[301] = float("inf")
    y = x.roll(1, 1).nan_to_num(posinf=0.0).sum(1, keepdim=True)
    net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.BatchNorm1d(16), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(60):
        if step in (30, 44) and sys.argv[1:] == ["skip"]:
            continue
        rows = slice(10 * step, 10 * step + 10)
        prediction = net(x[rows])
        loss = nn.functional.mse_loss(prediction, y[rows]) - nn.functional.mse_loss(
            prediction.detach() * 0.0, x[rows][:, :1] * 0.0
        )
        loss = loss + 0.01 * penalty(prediction, step)
        opt.zero_grad()
        loss.backward()
        opt.step()
    finite = all(p.isfinite().all().item() for p in net.parameters())
    total = sum(p.double().sum().item() for p in net.parameters())
    print("finite", finite)
    print("RESULT", json.dumps({"finite": finite, "total": total}))


main()
