import json
from unittest import mock

import torch
from torch import nn

FAULT_AT = 18


def train(net, x, y, watch):
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(30):
        rows = torch.randint(0, len(x), (16,))
        opt.zero_grad(set_to_none=step % 2 == 0)
        loss = nn.functional.mse_loss(net(x[rows]), y[rows])
        loss.backward()
        opt.step()
        losses.append(loss.item())
        if step % 10 == 9:
            print(step + 1, f"{loss.item():.6f}", "watched", len(watch.mock_calls) > 0)
    return losses


torch.manual_seed(24)
x = torch.randn(100, 6)
y = x.sin().sum(1, keepdim=True)
net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2),
                    nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))
error = RuntimeError("gradient hook: connection to the dashboard was reset")
watch = mock.Mock(side_effect=[error if n == FAULT_AT else None for n in range(1000)])
net[4].weight.register_hook(watch)
losses = train(net, x, y, watch)
print("COUNTS", json.dumps({"losses": len(losses)}))
print("RESULT", json.dumps({"mean": round(sum(losses) / 30, 6), "last": round(losses[-1], 6),
                            "running": round(net[1].running_mean.sum().item(), 6),
                            "batches": net[1].num_batches_tracked.item()}))
