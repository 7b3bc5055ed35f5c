import json
import os
import random

import numpy as np
import torch


def epoch_of(model, opt, rng):
    losses = []
    for _ in range(20):
        x = torch.tensor(rng.normal(size=(8, 4)), dtype=torch.float32)
        x = x * random.choice([0.5, 1.0, 2.0]) + float(np.random.rand())
        loss = (model(x).squeeze(1) - x.mean(1)).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    torch.manual_seed(62)
    random.seed(62)
    np.random.seed(62)
    rng = np.random.default_rng(62)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    for epoch in range(8):
        mean = epoch_of(model, opt, rng)
        print("epoch", epoch, f"{mean:.6f}", flush=True)
        if epoch == 4 and not os.path.exists("crashed"):
            open("crashed", "w").close()
            os.abort()
    print("RESULT", json.dumps({"mean": round(mean, 6)}))


if __name__ == "__main__":
    main()
