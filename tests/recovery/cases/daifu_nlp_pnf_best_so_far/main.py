import argparse
import json
import random

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--save", default="out/model.pt")
parser.add_argument("--epochs", type=int, default=8)
args = parser.parse_args()

torch.manual_seed(8)
rng = random.Random(8)
letters = "abcde"
lines = ["".join(rng.choice(letters) for _ in range(6)) for _ in range(150)]
x = torch.tensor([[letters.index(c) for c in line] for line in lines])
y = torch.tensor([line.count("a") > line.count("e") for line in lines]).long()

model = nn.Sequential(nn.Embedding(5, 8), nn.Flatten(), nn.Linear(48, 2))
opt = torch.optim.Adam(model.parameters(), lr=0.01)
best, saves, evaluations = None, 0, 0
for epoch in range(args.epochs):
    for part in torch.randperm(100).split(20):
        opt.zero_grad()
        nn.functional.cross_entropy(model(x[part]), y[part]).backward()
        opt.step()
    with torch.no_grad():
        val = nn.functional.cross_entropy(model(x[100:]), y[100:]).item()
        evaluations += 1
    print(f"end of epoch {epoch} valid loss {val:.5f}")
    if best is None or val < best:
        with open(args.save, "wb") as f:
            torch.save(model, f)
        saves += 1
        best = val
print("COUNTS", json.dumps({"saves": saves, "evaluations": evaluations}))
print("RESULT", json.dumps({"best": round(best, 6)}))
