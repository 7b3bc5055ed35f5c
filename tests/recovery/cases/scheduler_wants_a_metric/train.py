import json

import torch
import torch.nn as nn

seen = {"steps": 0, "epochs": 0}


def main():
    torch.manual_seed(4)
    x = torch.randn(120, 6)
    y = (x[:, :1] * x[:, 1:2]).tanh()
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
    for epoch in range(6):
        seen["epochs"] += 1
        losses = []
        for batch in torch.randperm(len(x)).split(20):
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x[batch]), y[batch])
            loss.backward()
            opt.step()
            seen["steps"] += 1
            losses.append(loss.item())
        mean = sum(losses) / len(losses)
        scheduler.step()
        print(f"epoch {epoch} loss {mean:.6f} lr {opt.param_groups[0]['lr']:.4f}")
    print("COUNTS", json.dumps(seen))
    print("RESULT", json.dumps({"loss": round(mean, 6), "lr": opt.param_groups[0]["lr"]}))


main()
