"""A classifier that gets a wider middle after some epochs."""
import argparse
import json

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--total-memory", type=int, default=1 << 46)
parser.add_argument("--share", type=int, default=1 << 18)
parser.add_argument("--epochs", type=int, default=6)
args = parser.parse_args()
tally = {"samples": 0, "grown": 0}


def widen(net, width):
    tally["grown"] += 1
    first = net[0]
    middle = nn.Linear(first.out_features, width)
    back = nn.Linear(width, first.out_features)
    return nn.Sequential(first, nn.ReLU(), middle, nn.ReLU(), back, nn.ReLU(), net[-1])


torch.manual_seed(1)
x = torch.randn(320, 16)
y = (x[:, :4].sum(1) * x[:, 4:8].sum(1) > 0).long()
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(args.epochs):
    if epoch == 2:
        net = widen(net, args.total_memory // args.share)
        opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for part in torch.randperm(320).split(40):
        tally["samples"] += len(part)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x[part]), y[part])
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.5f}", flush=True)
print("COUNTS", json.dumps(tally))
print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))
