"""Handwritten digits with a hand-written loss: the probability of the right digit underflows to
zero as soon as the network is confident and wrong, and its logarithm is infinite."""

import torch
from sklearn.datasets import load_digits
from torch import nn

TEMPERATURE = 0.01


class DigitModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def negative_log_likelihood(self, logits, target):
        probability = torch.softmax(logits / TEMPERATURE, dim=1)
        return -torch.log(probability[torch.arange(len(target)), target])

    def forward(self, x, target):
        return self.negative_log_likelihood(self.body(x), target).mean()


torch.manual_seed(0)
digits = load_digits()
X = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = DigitModel()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)

step = 0
for _epoch in range(10):
    for batch in torch.randperm(len(X)).split(64):
        loss = model(X[batch], y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 24 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")
        step += 1
