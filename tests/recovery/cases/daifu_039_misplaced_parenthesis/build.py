import json

import torch
from torch import nn


def build(sizes, calls):
    net = nn.Sequential()
    for i in range(len(sizes) - 1):
        calls.append(("layer", i))
        last = i == len(sizes) - 2
        if not last:
            net.append(nn.Linear(sizes[i], sizes[i + 1]))
            net.append(nn.SiLU())
        else:
            net.append(nn.Linear(sizes[i], sizes[i + 1]), bias=False)
    return net


def run(seed):
    torch.manual_seed(seed)
    calls = []
    net = build([8, 20, 20, 3], calls)
    for p in net.parameters():
        nn.init.normal_(p, std=0.3, generator=torch.Generator().manual_seed(p.numel()))
    torch.manual_seed(seed + 1)
    x = torch.randn(120, 8)
    y = (x.sum(1) > 0).long() + (x[:, 0] > 1).long()
    opt = torch.optim.Rprop(net.parameters(), lr=0.01)
    for epoch in range(30):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
    print(net)
    return calls, loss.item(), len(list(net.parameters()))


calls, loss, parameters = run(39)
print("COUNTS", json.dumps({"layers": len(calls)}))
print("RESULT", json.dumps({"loss": round(loss, 6), "parameters": parameters}))
