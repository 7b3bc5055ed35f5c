import json

import torch
from torch import nn

from devices import Device

devices = [Device("0", fails_after=25), Device("1"), Device("2")]


def main():
    torch.manual_seed(4)
    device = devices[0]
    x = torch.randn(120, 1, 6, 6)
    y = (x.flatten(1)[:, :6].sum(1) > 0).long()
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    steps = 0
    for epoch in range(6):
        for part in torch.randperm(120).split(20):
            noisy = x[part] + 0.1 * torch.randn_like(x[part])
            data, labels = device.place(noisy), y[part]
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(data), labels)
            loss.backward()
            opt.step()
            steps += 1
        print(f"epoch {epoch} on device {device.name}: {loss.item():.5f}")
    print("COUNTS", json.dumps({"steps": steps, "placed": sum(d.taken for d in devices)}))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))


if __name__ == "__main__":
    main()
