import json
import random

import torch
from torch import nn


def collate(examples):
    xs, ys = zip(*examples)
    return torch.stack(xs), torch.tensor(ys)


def synthetic(n, rng):
    for _ in range(n):
        x = [rng.gauss(0, 1) for _ in range(5)]
        yield x, int(x[0] + x[1] > x[2])


class Trainer:
    def __init__(self):
        torch.manual_seed(96)
        self.net = nn.Sequential(nn.Linear(5, 20), nn.Sigmoid(), nn.Linear(20, 2))
        self.opt = torch.optim.Adagrad(self.net.parameters(), lr=0.1)
        self.batches = self.examples = 0

    def epoch(self, examples, size):
        for at in range(0, len(examples), size):
            self.batches += 1
            x, y = collate(examples[at:at + size])
            self.examples += len(y)
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


rng = random.Random(96)
first = [(torch.tensor(x), y) for x, y in synthetic(200, rng)]
second = list(synthetic(200, rng))
trainer = Trainer()
for number, phase in enumerate([first, second], 1):
    for epoch in range(10):
        loss = trainer.epoch(phase, 20)
    print(f"phase {number}: {loss:.5f} after {trainer.batches} batches")
print("COUNTS", json.dumps({"batches": trainer.batches, "examples": trainer.examples}))
print("RESULT", json.dumps({"loss": round(loss, 6)}))
