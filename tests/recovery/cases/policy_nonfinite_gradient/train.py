import json
import torch
from torch import nn

def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    log = {"seen": 0, "steps": 0}
    for step in range(9):
        x = torch.randn(8, 4)
        y = x.sum(1, keepdim=True)
        if step == 5 and POISON:
            y[0] = float("nan")
        log["seen"] += 1
        if step == 5 and not POISON:
            continue
        opt.zero_grad(set_to_none=True)
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
        opt.step()
        log["steps"] += 1
    print("COUNTS", json.dumps(log))
    print("RESULT", json.dumps({"w": round(sum(p.sum().item() for p in net.parameters()), 6)}))

POISON = True
main()
