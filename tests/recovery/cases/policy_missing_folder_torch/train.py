import json
import os

import torch

torch.manual_seed(43)
net = torch.nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
saved = 0
for epoch in range(4):
    loss = net(torch.randn(8, 3)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch.save({"net": net.state_dict(), "epoch": epoch}, f"runs/exp 1/epoch{epoch}.pt")
    saved += 1
print(sorted(os.listdir("runs/exp 1")))
print("COUNTS", json.dumps({"saved": saved}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))
