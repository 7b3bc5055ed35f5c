"""Ends by an exception after some training, with an excepthook and an atexit of its own."""
import atexit
import sys

import torch

torch.manual_seed(10)
torch.set_num_threads(1)
w = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([w], lr=0.1)


def report(kind, value, traceback):
    print("own hook:", kind.__name__, value, traceback.tb_lineno)


sys.excepthook = report
atexit.register(lambda: print("at exit", w.tolist()))
for step in range(30):
    loss = (w * torch.randn(4)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 25:
        open("partial.txt", "w").write(str(w.tolist()))
        raise KeyError("label_map")
