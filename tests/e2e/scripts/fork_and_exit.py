"""Forks a child that trains too, pickles an object of __main__, leaves by os._exit."""
import os
import pickle
import sys

import torch


class Config:
    def __init__(self):
        self.lr = 0.05
        self.argv = sys.argv[1:]


def train(seed, steps):
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=Config().lr)
    for _ in range(steps):
        x = torch.randn(8, 3)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


torch.set_num_threads(1)
first = train(11, 20)
child = os.fork()
if child == 0:
    torch.save(train(12, 20).state_dict(), "child.pt")
    os._exit(0)
os.waitpid(child, 0)
pickle.dump(Config(), open("config.pickle", "wb"))
print(pickle.load(open("config.pickle", "rb")).argv, __name__, Config.__module__, sys.path[0] == os.getcwd())
torch.save(first.state_dict(), "parent.pt")
print(threads := torch.get_num_threads(), file=sys.stderr)
sys.stdout.flush()
os._exit(7)
