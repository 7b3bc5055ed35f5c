import json

import torch
from torch import nn

modes = []


def top2(scores, labels, classes):
    best = scores.topk(2).indices
    return (best == labels.unsqueeze(1)).any(1).float().sum() / classes[labels].count_nonzero()


def evaluate(net, x, y, classes):
    net.eval()
    values = []
    with torch.no_grad():
        for xb, yb in zip(x.split(20), y.split(20)):
            scores = net(xb)
            values.append(top2(scores, yb, classes).item())
            modes.append((torch.is_grad_enabled(), scores.requires_grad, net.training))
    net.train()
    return sum(values) / len(values)


torch.manual_seed(31)
x, y = torch.randn(100, 4), torch.randint(0, 3, (100,))
net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
classes = [1, 2, 3]
for epoch in range(3):
    for part in torch.randperm(60).split(15):
        loss = nn.functional.cross_entropy(net(x[part]), y[part])
        opt.zero_grad()
        loss.backward()
        opt.step()
    value = evaluate(net, x[60:], y[60:], classes)
    print("epoch", epoch, round(value, 4), torch.is_grad_enabled(), net.training)
print(set(modes))
print("COUNTS", json.dumps({"modes": len(modes)}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6), "value": round(value, 6)}))
