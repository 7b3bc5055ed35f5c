import json

import torch
import torch.nn as nn

seen = {"steps": 0, "scored": 0}


def score(guess, y):
    seen["scored"] += 1
    print("scoring", len(y), "rows")
    right = ((guess == 1) & (y == 1)).sum().item()
    found = {
        "precison": right / max(1, (guess == 1).sum().item()),
        "recall": right / max(1, (y == 1).sum().item()),
    }
    both = found["recall"] * 2
    found["f1"] = both * found["precision"] / max(1e-9, found["recall"] + found["precision"])
    return found


def main():
    torch.manual_seed(11)
    x = torch.randn(200, 4)
    y = (x[:, 0] + x[:, 1] > 0.3).long()
    net = nn.Linear(4, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.3)
    for epoch in range(4):
        for batch in torch.randperm(len(x)).split(40):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            loss.backward()
            opt.step()
            seen["steps"] += 1
        with torch.no_grad():
            scores = score(net(x).argmax(1), y)
        print(f"epoch {epoch} f1 {scores['f1']:.5f}")
    print("COUNTS", json.dumps(seen))
    print("RESULT", json.dumps({k: round(v, 6) for k, v in scores.items()}))


main()
