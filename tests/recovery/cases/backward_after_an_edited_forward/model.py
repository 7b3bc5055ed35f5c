import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.lin = nn.Linear(n, n)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, hard=False):
        g = torch.sigmoid(self.lin(self.drop(x)))
        h = g * x
        if hard:
            g += 0.5
            h = h * g
        return h
