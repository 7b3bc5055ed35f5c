import itertools
import json
from unittest import mock

import torch
from torch import nn

BUSY = 3
full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0)")
grab = mock.Mock(wraps=torch.empty_like, side_effect=itertools.chain(
    [mock.DEFAULT] * 70, [full] * BUSY, itertools.repeat(mock.DEFAULT)))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        outs = []
        for q, k, v in zip(*(t.chunk(self.heads, -1) for t in self.mix(x).chunk(3, -1))):
            weights = self.drop((q @ k.mT / k.shape[-1] ** 0.5).softmax(-1))
            space = grab(weights)
            space.copy_(weights)
            outs.append(weights @ v)
        return torch.cat(outs, -1)


def train(net, head, data, opt):
    done = 0
    for chunk, wanted in data:
        loss = nn.functional.cross_entropy(head(net(chunk)).flatten(0, 1), wanted.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        done += 1
    return loss.item(), done


torch.manual_seed(5)
tokens = (torch.arange(600) ** 2 % 17).view(30, 20)
embed = nn.Embedding(17, 16)
net, head = nn.Sequential(embed, Attention(16, 2)), nn.Linear(16, 17)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.01)
for epoch in range(5):
    loss, done = train(net, head, [(t[:, :-1], t[:, 1:]) for t in tokens.split(3)], opt)
    print(f"| epoch {epoch} | loss {loss:5.3f} | {done} chunks")
print("COUNTS", json.dumps({"grabs": grab.call_count}))
print("RESULT", json.dumps({"loss": round(loss, 6)}))
