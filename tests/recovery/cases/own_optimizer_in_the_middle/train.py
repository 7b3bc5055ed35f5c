import json

import torch

updates = []


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, decay):
        super().__init__(params, {"lr": lr, "decay": decay, "beta": 0.9})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state.setdefault("mean", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["decay"][p.dim()])
                p.add_(state["mean"].lerp(p.grad, 0.1).sign(), alpha=-group["lr"])
                state["mean"].lerp_(p.grad, 1 - group["beta"])
                updates.append(p.dim())


torch.manual_seed(27)
net = torch.nn.Sequential(torch.nn.Conv1d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                          torch.nn.Linear(40, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
opt = Lion(net.parameters(), lr=0.01, decay={3: 0.1, 1: 0.0})
x = torch.randn(60, 1, 12)
for step in range(20):
    rows = torch.randint(0, 60, (12,))
    loss = (net(x[rows]) - x[rows].mean((1, 2)).unsqueeze(1)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 6))
print("COUNTS", json.dumps({"updates": len(updates)}))
print("RESULT", json.dumps({"loss": round(loss.item(), 7)}))
