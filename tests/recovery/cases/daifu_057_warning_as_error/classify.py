import json
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("error")
torch.manual_seed(57)


def accuracy(scores, labels, tally):
    tally["asked"] += 1
    chances = F.softmax(scores)
    tally["answered"] += 1
    return (chances.argmax(1) == labels).float().mean().item()


x = torch.randn(150, 4)
labels = (x[:, 0] > x[:, 1]).long()
w = torch.zeros(4, 2, requires_grad=True)
tally = {"asked": 0, "answered": 0, "steps": 0}
for epoch in range(12):
    for rows in torch.randperm(150).split(30):
        loss = F.cross_entropy(x[rows] @ w, labels[rows])
        (grad,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w -= 0.3 * grad
        tally["steps"] += 1
    if epoch % 4 == 3:
        print("epoch", epoch + 1, "accuracy", round(accuracy(x @ w, labels, tally), 4))
print("COUNTS", json.dumps(tally))
print("RESULT", json.dumps({"w": [round(v, 5) for v in w.flatten().tolist()]}))
