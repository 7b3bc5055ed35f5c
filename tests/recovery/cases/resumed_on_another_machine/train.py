import json

import torch
import torch.nn as nn

seen = {"loaded": 0, "steps": 0}


def model():
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1))


def before():
    """What the other machine has left behind."""
    torch.manual_seed(8)
    net = model()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    net(torch.ones(3, 5)).sum().backward()
    opt.step()
    names = {f"module.{name}": value for name, value in net.state_dict().items()}
    torch.save({"model": names, "optimizer": opt.state_dict(), "epoch": 2}, "checkpoint.pt")


def resume(net, opt):
    seen["loaded"] += 1
    found = torch.load("checkpoint.pt", map_location=torch.device("cuda", 0))
    net.load_state_dict(found["model"])
    opt.load_state_dict(found["optimizer"])
    print("resumed after epoch", found["epoch"])
    return found["epoch"] + 1


def main():
    before()
    torch.manual_seed(9)
    net = model()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    x = torch.randn(60, 5)
    y = x.prod(1, keepdim=True)
    for epoch in range(resume(net, opt), 6):
        for batch in torch.randperm(len(x)).split(15):
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x[batch]), y[batch])
            loss.backward()
            opt.step()
            seen["steps"] += 1
        print(f"epoch {epoch} loss {loss.item():.6f}")
    print("COUNTS", json.dumps(seen))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))


main()
