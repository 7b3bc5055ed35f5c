import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(24, 24), nn.Tanh(), nn.Dropout(0.1)) for _ in range(4)])
        self.tied = nn.Linear(24, 24, bias=False)
        self.out = nn.Linear(24, 24, bias=False)
        self.out.weight = self.tied.weight

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.out(torch.relu(self.tied(x)))


torch.manual_seed(6)
torch.set_num_threads(1)
model = Deep()
model.blocks[0].requires_grad_(False)
shadow = copy.deepcopy(model)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
for step in range(60):
    x = torch.randn(16, 24)
    loss = (model(x) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for a, b in zip(shadow.parameters(), model.parameters()):
            a.lerp_(b, 0.1)
print(loss.item(), sum(p.sum().item() for p in shadow.parameters()))
torch.save((model, shadow), "models.pt")
