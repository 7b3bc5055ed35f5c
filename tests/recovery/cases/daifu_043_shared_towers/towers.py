"""Two towers with one set of weights, kept by name as the graph frameworks of old did."""
import contextlib
import json

import torch


class Scope:
    def __init__(self):
        self.made, self.shared, self.asked = {}, False, 0

    def weight(self, name, *shape):
        self.asked += 1
        if name in self.made and not self.shared:
            raise ValueError(f"{name} exists and is not shared")
        if name not in self.made:
            self.made[name] = torch.nn.Parameter(torch.randn(*shape) * 0.3)
        return self.made[name]

    @contextlib.contextmanager
    def sharing(self):
        self.shared = True
        try:
            yield self
        finally:
            self.shared = False


def tower(scope, x):
    hidden = torch.tanh(x @ scope.weight("in", 5, 12))
    return hidden @ scope.weight("out", 12, 1)


def loss_of(scope, x, y, towers):
    parts = []
    for part, target in zip(x.chunk(towers), y.chunk(towers)):
        parts.append((tower(scope, part) - target).square().mean())
    return torch.stack(parts).mean()


def main():
    torch.manual_seed(43)
    x = torch.randn(64, 5)
    y = x.sin().sum(1, keepdim=True)
    scope = Scope()
    opt = None
    for step in range(40):
        loss = loss_of(scope, x, y, towers=2)
        opt = opt or torch.optim.Adam(scope.made.values(), lr=0.02)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 9:
            print(f"step {step + 1} loss {loss.item():.5f} shared {scope.shared}")
    print("COUNTS", json.dumps({"made": len(scope.made)}))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))


main()
