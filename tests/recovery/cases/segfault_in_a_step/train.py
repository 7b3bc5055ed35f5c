import json
import os
import signal

import torch
from torch import nn

torch.manual_seed(60)
x = torch.randn(256, 8)
y = x[:, :2].prod(1, keepdim=True)
net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(150):
    rows = torch.randint(0, 256, (32,))
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x[rows]), y[rows])
    loss.backward()
    if step == 97 and not os.path.exists("crashed"):
        open("crashed", "w").close()
        os.kill(os.getpid(), signal.SIGSEGV)
    opt.step()
print("done")
print("RESULT", json.dumps({"loss": round(loss.item(), 6),
                            "weights": round(sum(p.sum().item() for p in net.parameters()), 5)}))
