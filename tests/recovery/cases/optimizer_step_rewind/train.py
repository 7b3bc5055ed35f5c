import json
from unittest import mock

import torch
from torch import nn

FAULT_AT = 13
torch.manual_seed(26)


class Fit:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(4, 12), nn.Dropout(0.3), nn.GELU(), nn.Linear(12, 1))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.02)
        error = OSError(5, "the metrics server did not answer")
        plan = [error if n == FAULT_AT else None for n in range(500)]
        self.opt.register_step_post_hook(mock.Mock(side_effect=plan))
        self.seen = 0

    def run(self, batches):
        total = 0.0
        for x, y in batches:
            self.opt.zero_grad()
            loss = nn.functional.smooth_l1_loss(self.net(x), y)
            loss.backward()
            self.opt.step()
            self.seen += len(x)
            total += loss.item()
        return total / len(batches)


x = torch.randn(80, 4)
y = x.prod(1, keepdim=True)
batches = list(zip(x.split(10), y.split(10)))
fit = Fit()
means = [fit.run(batches) for _ in range(4)]
moments = sum(s["exp_avg"].abs().sum().item() for s in fit.opt.state.values())
print([round(m, 5) for m in means])
print("COUNTS", json.dumps({"seen": fit.seen}))
print("RESULT", json.dumps({"mean": round(means[-1], 6), "moments": round(moments, 6)}))
