import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def fit(model, loader, epochs):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.002)
    batches = 0
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for images, labels in loader:
            batches += 1
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("Epoch %d/%d - loss: %.4f" % (epoch + 1, epochs, total / len(loader)))
    return batches, total


torch.manual_seed(80)
images = torch.rand(192, 1, 10, 10)
labels = (images[:, 0, :5].sum((1, 2)) > images[:, 0, 5:].sum((1, 2))).long()
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Linear(200, 2),
)
batches, total = fit(model, loader, 4)
print("COUNTS", json.dumps({"batches": batches}))
print("RESULT", json.dumps({"loss": round(total, 6)}))
