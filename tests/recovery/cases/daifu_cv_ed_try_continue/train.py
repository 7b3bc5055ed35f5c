import json

import torch
from torch import nn

seen = {"batches": 0, "updates": 0, "skipped": 0}


def batches(n):
    gen = torch.Generator().manual_seed(10)
    for k in range(n):
        x = torch.randn(16, 9, generator=gen)
        y = (x.sum(1) > 0).long()
        if k == 77:
            x = torch.full((16, 9), float("nan"), dtype=torch.float64)
        yield x, y


def train(net, opt, n):
    mean = 0.0
    for k, (data, target) in enumerate(batches(n)):
        seen["batches"] += 1
        opt.zero_grad()
        output = net(data)
        loss = nn.functional.cross_entropy(output, target)
        loss.backward()
        opt.step()
        seen["updates"] += 1
        mean += (loss.item() - mean) / seen["updates"]
        if k % 40 == 39:
            print(f"[{k + 1}/{n}] mean loss {mean:.5f}")
    return mean


torch.manual_seed(10)
net = nn.Sequential(nn.Linear(9, 18), nn.ReLU(), nn.Linear(18, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
mean = train(net, opt, 120)
print("COUNTS", json.dumps(seen))
print("RESULT", json.dumps({"mean": round(mean, 6)}))
