import json

import torch
from torch import nn

sums = {}


def watch(name):
    def hook(module, inputs, output):
        sums.setdefault(name, [])
        sums[name].append(round(output.abs().mean().item(), 5))
    return hook


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x):
        return self.linear(x).chunk(2, -1)


torch.manual_seed(30)
gate, head = Gate(6), nn.Linear(6, 1)
for name, module in (("gate", gate), ("head", head)):
    module.register_forward_hook(watch(name))
opt = torch.optim.SGD([*gate.parameters(), *head.parameters()], lr=0.1)
for step in range(8):
    x = torch.randn(10, 6)
    value, weight = gate(x)
    loss = (head(value * weight.sigmoid()) - x[:, :1]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print({k: v[-1] for k, v in sums.items()})
print("COUNTS", json.dumps({k: len(v) for k, v in sums.items()}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))
