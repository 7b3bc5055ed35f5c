import json

import torch


class Cosine:
    def __init__(self, opt, total):
        self.opt, self.at, self.sets = opt, 0, 0
        self.values = [0.1 * (1 + torch.tensor(3.1416 * i / total).cos().item()) / 2
                       for i in range(total)]

    def step(self):
        self.at += 1
        for group in self.opt.param_groups:
            group["lr"] = self.values[self.at]
            self.sets += 1


torch.manual_seed(33)
w = torch.nn.Parameter(torch.randn(6))
opt = torch.optim.SGD([w], lr=0.1)
schedule = Cosine(opt, 6 * 8)
for epoch in range(6):
    for step in range(8):
        loss = (w - torch.arange(6.0)).square().sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
    print("epoch", epoch, round(loss.item(), 5), round(opt.param_groups[0]["lr"], 6))
print("COUNTS", json.dumps({"sets": schedule.sets}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))
