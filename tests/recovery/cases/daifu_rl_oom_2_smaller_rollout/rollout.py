import json
from unittest import mock

import torch
from torch import nn

torch.manual_seed(6)
BUSY_AT = 150


class Space:
    """Memory on a card; a second user of the card makes it refuse."""

    def __init__(self, name, busy_at):
        self.name = name
        error = torch.OutOfMemoryError(f"CUDA out of memory on {name}. Tried to allocate 2.00 MiB")
        plan = [mock.DEFAULT] * busy_at + [error] * 999
        self.store = mock.Mock(side_effect=plan, wraps=torch.clone)


class Learner:
    def __init__(self):
        self.space = Space("cuda:0", BUSY_AT)
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.walked = self.updates = 0

    def rollout(self, length):
        state, seen = torch.zeros(2), []
        with torch.no_grad():
            for _ in range(length):
                push = self.net(state) + 0.3 * torch.randn(1)
                state = torch.cat([state[1:], 0.9 * state[:1] + push])
                seen.append(self.space.store(state))
                self.walked += 1
        return torch.stack(seen), torch.is_grad_enabled()

    def learn(self):
        states, grads_on = self.rollout(20)
        assert grads_on
        loss = self.net(states).square().mean() + (self.net(states) - 0.5).abs().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        return loss.item()


learner = Learner()
for round_ in range(12):
    loss = learner.learn()
    if round_ % 4 == 3:
        print(round_ + 1, f"{loss:.5f}")
print("COUNTS", json.dumps({"walked": learner.walked, "updates": learner.updates}))
print("RESULT", json.dumps({"loss": round(loss, 6)}))
