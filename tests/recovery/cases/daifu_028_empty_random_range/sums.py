"""Learns to add two digits from random examples."""
import json

import torch

torch.manual_seed(28)
LIMIT = 10
made = 0


def examples(n, low, high):
    global made
    made += 1
    table = []
    for column in range(2):
        table.append(torch.randint(low, high, (n,)))
    a, b = table
    x = torch.cat([torch.nn.functional.one_hot(v, LIMIT) for v in table], dim=1).float()
    return x, (a + b).float().unsqueeze(1)


x, y = examples(600, LIMIT, LIMIT)
net = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
steps = 0
for epoch in range(15):
    for part in torch.randperm(len(x)).split(60):
        loss = torch.nn.functional.l1_loss(net(x[part]), y[part])
        opt.zero_grad()
        loss.backward()
        opt.step()
        steps += 1
    if epoch % 5 == 4:
        print("after", steps, "steps:", round(loss.item(), 4))
print("COUNTS", json.dumps({"made": made, "steps": steps}))
print("RESULT", json.dumps({"l1": round((net(x) - y).abs().mean().item(), 6)}))
