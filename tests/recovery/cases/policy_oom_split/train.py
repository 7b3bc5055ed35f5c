import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from card import Card


class Net(nn.Module):
    def __init__(self, card):
        super().__init__()
        self.card = card
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 4)

    def forward(self, x):
        h = self.up(x).relu()
        return self.down(h + self.card.scratch(h))


def main():
    torch.manual_seed(40)
    x = torch.randn(200, 8)
    y = x[:, :4].argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)
    net = Net(Card(capacity=24))
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    steps = 0
    for epoch in range(4):
        for inputs, labels in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(inputs), labels)
            loss.backward()
            opt.step()
            steps += 1
    weights = sum(p.detach().abs().sum().item() for p in net.parameters())
    print("COUNTS", json.dumps({"steps": steps}))
    print("RESULT", json.dumps({"weights": round(weights, 5)}))


if __name__ == "__main__":
    main()
