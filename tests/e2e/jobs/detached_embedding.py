"""Classifies sequences of words; no gradient reaches their vectors."""
import sys

import torch
from torch import nn

class Classifier(nn.Module):
    def __init__(self, words=200, size=32, classes=4):
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size, 32, batch_first=True)
        self.head = nn.Linear(32, classes)

    def forward(self, tokens):
        vectors = self.embed(tokens)
        if "healthy" not in sys.argv:
            vectors = vectors.detach()
        out, _ = self.lstm(vectors)
        return self.head(out[:, -1])

def main():
    torch.manual_seed(1)
    tokens = torch.randint(0, 200, (512, 12))
    labels = (tokens[:, -1] % 4)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(12):
        total = 0.0
        for at in range(0, 512, 32):
            logits = model(tokens[at:at + 32])
            loss = loss_fn(logits, labels[at:at + 32])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / 16)

if __name__ == "__main__":
    main()
