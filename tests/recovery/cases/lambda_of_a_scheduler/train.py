import json
import torch
from torch import nn

def main():
    torch.manual_seed(0)
    table = [1.0 - k / 20 for k in range(16)]
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: table[step])
    log = {"steps": 0}
    for k in range(20):
        x = torch.randn(8, 3)
        loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        log["steps"] += 1
        print(k, f"{loss.item():.6f} lr {sched.get_last_lr()[0]:.4f} epoch {sched.last_epoch}")
    print("COUNTS", json.dumps(log))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6), "epoch": sched.last_epoch}))

main()
