"""Fits a small autoencoder to sine waves and draws what it reconstructs, as text."""
import json

import torch


class Panel:
    """A plot of one curve with characters."""

    def __init__(self, height=5):
        self.height, self.lines = height, []

    def curve(self, values):
        low, high = min(values), max(values)
        for level in range(self.height - 1, -1, -1):
            limit = low + (high - low) * level / self.height
            self.lines.append("".join("#" if v >= limit else "." for v in values))


def panels(count):
    made = [Panel() for _ in range(count)]
    return made if count > 1 else made[0]


def fit(waves, epochs):
    net = torch.nn.Sequential(torch.nn.Linear(24, 6), torch.nn.Tanh(), torch.nn.Linear(6, 24))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    seen = 0
    for epoch in range(epochs):
        for batch in waves.split(20):
            loss = (net(batch) - batch).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += len(batch)
        if epoch % 10 == 9:
            print("epoch", epoch + 1, f"{loss.item():.5f}")
    return net, seen, loss.item()


def draw(net, waves, count, drawn):
    ax = panels(count)
    with torch.no_grad():
        out = net(waves[:count])
    for i in range(count):
        drawn["curves"] += 1
        ax[i].curve(out[i].tolist())
    for panel in ax:
        drawn["panels"] += 1
        print("\n".join(panel.lines))


torch.manual_seed(16)
phase = torch.rand(100, 1) * 6.28
waves = torch.sin(phase + torch.linspace(0, 6, 24))
net, seen, last = fit(waves, 30)
drawn = {"curves": 0, "panels": 0}
draw(net, waves, 1, drawn)
print("COUNTS", json.dumps({"seen": seen, **drawn}))
print("RESULT", json.dumps({"loss": round(last, 6)}))
