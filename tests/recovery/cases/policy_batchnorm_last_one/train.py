import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DROP = False


def main():
    torch.manual_seed(46)
    x = torch.randn(129, 6)
    y = (x.sum(1) > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=DROP)
    net = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    updates = 0
    for epoch in range(3):
        for inputs, labels in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(inputs), labels)
            loss.backward()
            opt.step()
            updates += 1
        print("epoch", epoch, f"{loss.item():.5f}")
    print("COUNTS", json.dumps({"updates": updates}))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6),
                                "batches": net[1].num_batches_tracked.item()}))


main()
