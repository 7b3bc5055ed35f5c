"""Trains a classifier of moods, then answers a few requests with it."""
import json

import torch

from model import Mood


class Service:
    names = ["calm", "glad", "sad"]

    def __init__(self, net):
        self.net, self.loads, self.answered = net, 0, 0
        self.ready = False

    def load(self):
        self.loads += 1
        self.net.eval()
        self.net._make_predict_function()
        self.ready = True

    def answer(self, features):
        if not self.ready:
            self.load()
        with torch.no_grad():
            guess = self.net(features).softmax(0)
        self.answered += 1
        return self.names[guess.argmax()], round(guess.max().item(), 4)


def train(net, x, y):
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    for epoch in range(20):
        loss = 0.0
        for xb, yb in zip(x.split(30), y.split(30)):
            opt.zero_grad()
            value = torch.nn.functional.cross_entropy(net(xb), yb)
            value.backward()
            opt.step()
            loss += value.item()
    return loss


torch.manual_seed(29)
x = torch.randn(180, 12)
y = x[:, :3].argmax(1)
net = Mood()
print("loss", round(train(net, x, y), 4))
service = Service(net)
answers = [service.answer(row) for row in torch.randn(8, 12)]
for name, sure in answers:
    print(name, sure)
print("COUNTS", json.dumps({"loads": service.loads, "answered": service.answered}))
print("RESULT", json.dumps({"sure": [sure for _, sure in answers]}))
