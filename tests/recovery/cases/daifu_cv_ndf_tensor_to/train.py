import itertools
import json
from unittest import mock

import torch
from torch import nn

FAULTS = (19, 20, 44)
real_to = torch.Tensor.to
plan = (RuntimeError("CUDA error: unspecified launch failure") if n in FAULTS else mock.DEFAULT
        for n in itertools.count())
flaky_to = mock.Mock(wraps=real_to, side_effect=plan)
torch.Tensor.to = lambda self, *args, **kwargs: flaky_to(self, *args, **kwargs)


def to_device(batch):
    return [t.to("cpu") for t in batch]


def main():
    torch.manual_seed(12)
    x = torch.rand(90, 1, 6, 6)
    y = (x.mean((1, 2, 3)) > 0.5).long()
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.Dropout(0.2), nn.ReLU(),
                        nn.Linear(16, 2))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    steps = 0
    for epoch in range(4):
        for part in torch.randperm(90).split(15):
            data = x[part].to("cpu")
            labels = y[part].to("cpu")
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(data), labels)
            loss.backward()
            opt.step()
            steps += 1
        print(f"epoch {epoch}: {loss.item():.5f}")
    print("COUNTS", json.dumps({"steps": steps}))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))


if __name__ == "__main__":
    main()
