"""A classifier of unbalanced rows; after two epochs its loss weighs the classes."""
import json

import torch
import torch.nn as nn

CLASSES = 5
seen = {"rows": 0, "steps": 0, "epochs": 0}


def rows(count):
    made = torch.Generator().manual_seed(3)
    y = torch.multinomial(torch.tensor([0.5, 0.3, 0.15, 0.05]), count, True, generator=made)
    x = torch.randn(count, 8, generator=made) + nn.functional.one_hot(y, 8) * 2
    return x, y


def main():
    torch.manual_seed(0)
    x, y = rows(400)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, CLASSES))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    counts = torch.bincount(y)
    weights = counts.sum() / (CLASSES * counts.clamp(min=1).float())
    print("weights of", len(y), "rows")
    plain = nn.CrossEntropyLoss()
    weighted = nn.CrossEntropyLoss(weight=weights)
    for epoch in range(6):
        seen["epochs"] += 1
        total = 0.0
        for batch in torch.randperm(len(y)).split(50):
            seen["rows"] += len(batch)
            criterion = plain if epoch < 2 else weighted
            opt.zero_grad()
            loss = criterion(net(x[batch]), y[batch])
            loss.backward()
            opt.step()
            seen["steps"] += 1
            total += loss.item()
        print(f"epoch {epoch} loss {total:.5f}")
    print("COUNTS", json.dumps(seen))
    w = net[0].weight.sum().item()
    print("RESULT", json.dumps({"loss": round(total, 6), "w": round(w, 6)}))


main()
