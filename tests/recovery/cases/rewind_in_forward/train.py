import json
from unittest import mock

import torch
from torch import nn

FAULT_AT = 9
encode = mock.Mock(side_effect=[RuntimeError("stream reset") if n == FAULT_AT else mock.DEFAULT
                                for n in range(400)], wraps=torch.relu)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(5, 10), nn.BatchNorm1d(10)
        self.drop, self.last = nn.Dropout(0.4), nn.Linear(10, 3)

    def forward(self, x):
        x = self.drop(self.norm(self.first(x)))
        return self.last(encode(x))


def main():
    torch.manual_seed(28)
    net = Net()
    opt = torch.optim.RMSprop(net.parameters(), lr=0.01)
    x, y = torch.randn(96, 5), torch.randint(0, 3, (96,))
    for epoch in range(3):
        for part in torch.randperm(96).split(16):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x[part]), y[part])
            loss.backward()
            opt.step()
        print("epoch", epoch, f"{loss.item():.6f}")
    print("RESULT", json.dumps({"loss": round(loss.item(), 6),
                                "mean": round(net.norm.running_mean.norm().item(), 6),
                                "tracked": net.norm.num_batches_tracked.item()}))


main()
