import json

import torch
import torch.nn as nn

seen = {"steps": 0, "validated": 0}


def validate(net, x, y):
    seen["validated"] += 1
    print("validating", len(x), "rows")
    net.eval()
    guesses = []
    with torch.no_grad():
        for rows in x.split(8):
            guess = net(rows).squeeze()
            guesses.append(guess)
    found = torch.cat(guesses)
    net.train()
    return nn.functional.mse_loss(found, y).item()


def main():
    torch.manual_seed(17)
    x = torch.randn(89, 5)
    y = x.sum(1).sin()
    net = nn.Sequential(nn.Linear(5, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(4):
        for batch in torch.randperm(48).split(12):
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x[batch])[:, 0], y[batch])
            loss.backward()
            opt.step()
            seen["steps"] += 1
        mean = validate(net, x[48:], y[48:])
        print(f"epoch {epoch} loss {loss.item():.6f} validation {mean:.6f}")
    print("COUNTS", json.dumps(seen))
    print("RESULT", json.dumps({"loss": round(mean, 6)}))


main()
