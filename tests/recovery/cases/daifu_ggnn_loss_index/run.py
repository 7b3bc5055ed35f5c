import json

import torch
from torch import nn

from graph import HIDDEN, NODES, Gated


def graphs(n):
    edges = (torch.rand(n, NODES, NODES) < 0.2).float()
    state = torch.zeros(n, NODES, HIDDEN)
    state[:, 0, 0] = 1
    reached = (edges.mT[:, 0] + (edges.mT @ edges.mT)[:, 0] > 0).float()
    return state, edges, reached


def train(net, data, opt, criterion, tally):
    net.train()
    for state, edges, reached in zip(*(part.split(16) for part in data)):
        loss = criterion(net(state, edges), reached)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tally["train"] += len(state)
    return loss.item()


def test(net, data, criterion, tally):
    net.eval()
    test_loss, correct = 0.0, 0
    for state, edges, reached in zip(*(part.split(16) for part in data)):
        tally["test"] += len(state)
        output = net(state, edges)
        test_loss += criterion(output, reached).data[0]
        correct += ((output > 0) == (reached > 0)).sum().item()
    return test_loss, correct


torch.manual_seed(15)
net = Gated()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
criterion = nn.BCEWithLogitsLoss()
tally = {"train": 0, "test": 0}
for epoch in range(4):
    loss = train(net, graphs(160), opt, criterion, tally)
    print(f"epoch {epoch} loss {loss:.5f}")
test_loss, correct = test(net, graphs(64), criterion, tally)
print(f"test {test_loss:.5f}, {correct} right")
print("COUNTS", json.dumps(tally))
print("RESULT", json.dumps({"test_loss": round(test_loss, 6), "correct": correct}))
