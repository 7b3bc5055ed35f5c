import torch


class Mood(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.GELU())
        self.head = torch.nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.body(x))
