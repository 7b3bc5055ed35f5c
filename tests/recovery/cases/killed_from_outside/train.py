import json
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    with open("pid", "w") as file:
        file.write(str(os.getpid()))
    torch.manual_seed(61)
    x = torch.randn(240, 6)
    y = (x[:, 0] > x[:, 1]).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.5)
    for epoch in range(10):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(net(inputs), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.01)
        schedule.step()
        print("epoch", epoch, f"{loss.item():.6f}", flush=True)
    print("RESULT", json.dumps({"loss": round(loss.item(), 6), "rate": schedule.get_last_lr()[0],
                                "mean": round(net[1].running_mean.sum().item(), 6)}))


if __name__ == "__main__":
    main()
