import argparse
import json

import torch

SETTINGS = {"sgd": {"learning_rate": 0.05, "momentum": 0.9}, "adam": {"lr": 0.01}}


def make_optimizer(name, net):
    options = SETTINGS[name]
    return getattr(torch.optim, name.upper())(net.parameters(), **options)


class Plateau:
    def __init__(self, opt, patience):
        self.calls = 0
        self.inner = None
        self.opt, self.patience = opt, patience

    def step(self, value):
        self.calls += 1
        if self.inner is None:
            self.inner = torch.optim.lr_scheduler.ReduceLROnPlateau(
                self.opt, patience=self.patience, epsilon=1e-4)
        self.inner.step(value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", default="sgd", choices=sorted(SETTINGS))
    parser.add_argument("--epochs", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(18)
    x = torch.randn(240, 6)
    y = (x[:, :2].prod(1) > 0).long()
    net = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    opt = make_optimizer(args.optimizer, net)
    plateau = Plateau(opt, patience=2)
    seen = 0
    for epoch in range(args.epochs):
        total = 0.0
        for part in torch.randperm(240).split(24):
            loss = torch.nn.functional.cross_entropy(net(x[part]), y[part])
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += len(part)
            total += loss.item() / 10
        plateau.step(total)
        if epoch % 5 == 4:
            print(f"{epoch + 1:3d} loss {total:.5f} rate {opt.param_groups[0]['lr']:.5f}")
    print("COUNTS", json.dumps({"seen": seen, "plateau_calls": plateau.calls}))
    print("RESULT", json.dumps({"loss": round(total, 6)}))


main()
