import json

import torch
import wandb

run = wandb.init(project="demo")
torch.manual_seed(45)
w = torch.nn.Parameter(torch.randn(5))
opt = torch.optim.SGD([w], lr=0.05)
logged = 0
for step in range(30):
    loss = (w - torch.arange(5.0)).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    wandb.log({"loss": loss.item(), "step": step})
    logged += 1
    if step % 10 == 9:
        print("step", step + 1, round(loss.item(), 6))
wandb.finish()
print("COUNTS", json.dumps({"logged": logged}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))
