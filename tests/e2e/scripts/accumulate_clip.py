import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default=4)
args = parser.parse_args()
torch.manual_seed(4)
torch.set_num_threads(1)
lstm, head = nn.LSTM(5, 16, batch_first=True), nn.Linear(16, 2)
params = [*lstm.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(params, lr=1e-2)
norms = []
for i in range(80):
    x = torch.randn(8, 12, 5)
    t = (x.sum((1, 2)) > 0).long()
    loss = nn.functional.cross_entropy(head(lstm(x)[0][:, -1]), t) / args.every
    loss.backward()
    if (i + 1) % args.every == 0:
        norms.append(torch.nn.utils.clip_grad_norm_(params, 0.5).item())
        optimizer.step()
        optimizer.zero_grad()
print(norms)
torch.save({"lstm": lstm, "head": head, "optimizer": optimizer}, "checkpoint.pt")
