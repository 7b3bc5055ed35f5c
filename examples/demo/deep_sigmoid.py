"""Handwritten digits, ten sigmoid layers: the gradient never reaches the first ones."""

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
digits = load_digits()
X = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)

layers = []
for _ in range(10):
    layers += [nn.Linear(64, 64), nn.Sigmoid()]
model = nn.Sequential(*layers, nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(12):
    for batch in torch.randperm(len(X)).split(64):
        loss = nn.functional.cross_entropy(model(X[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = (model(X).argmax(1) == y).float().mean().item()
    print(f"epoch {epoch + 1:2d}  loss {loss.item():.4f}  accuracy {accuracy:.3f}")
