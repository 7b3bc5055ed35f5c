import json

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 10)
        self.rnn = nn.LSTM(10, 14, batch_first=True)
        self.out = nn.Linear(14, 20)

    def forward(self, ids, state):
        y, state = self.rnn(self.embed(ids), state)
        return self.out(y), state


def chunk(at, gen):
    if at == 29:
        return torch.full((4, 9), float("nan"), dtype=torch.float64)
    return (torch.randint(0, 3, (4, 1), generator=gen) + torch.arange(9) * 2) % 20


def repackage(state):
    return None if state is None else tuple(s.detach() for s in state)


torch.manual_seed(11)
gen = torch.Generator().manual_seed(0)
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=0.02)
at = updates = 0
state, total = None, 0.0
while at < 60:
    ids = chunk(at, gen)
    at += 1
    state = repackage(state)
    out, state = model(ids[:, :-1], state)
    loss = nn.functional.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    updates += 1
    total += loss.item()
    if at % 15 == 0:
        print(at, f"{total / updates:.5f}")
print("COUNTS", json.dumps({"chunks": at, "updates": updates}))
print("RESULT", json.dumps({"mean": round(total / updates, 6)}))
