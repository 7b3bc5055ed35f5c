import json
from unittest import mock

import torch
from torch import nn

FAULT_AT = 30
torch.manual_seed(34)
net = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
hook = mock.Mock(side_effect=[ConnectionError("lost") if n == FAULT_AT else None
                              for n in range(300)])
net[2].bias.register_hook(hook)
x = torch.randn(400, 3)
steps = 0
for n, xb in enumerate(x.split(5)):
    loss = (net(xb).squeeze(1) - xb.norm(dim=1)).square().mean() / 4
    loss.backward()
    if n % 4 == 3:
        opt.step()
        opt.zero_grad()
        steps += 1
print("loss", round(loss.item(), 6))
print("COUNTS", json.dumps({"steps": steps}))
print("RESULT", json.dumps({"loss": round(loss.item(), 7)}))
