import json
import os
import signal

import torch

KINDS = {20: signal.SIGBUS, 50: signal.SIGSEGV, 80: signal.SIGKILL}
torch.manual_seed(63)
w = torch.nn.Parameter(torch.zeros(6))
opt = torch.optim.SGD([w], lr=0.05, momentum=0.8)
for step in range(100):
    x = torch.randn(10, 6)
    loss = (x @ w - x.sum(1)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step in KINDS and not os.path.exists("crashed") and not os.path.exists(f"crashed{step}"):
        open(f"crashed{step}", "w").close()
        os.kill(os.getpid(), KINDS[step])
print("RESULT", json.dumps({"w": [round(v, 6) for v in w.tolist()]}))
