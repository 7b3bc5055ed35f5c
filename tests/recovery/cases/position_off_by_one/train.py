import json

import torch
import torch.nn as nn

LENGTH, TOKENS = 8, 12
seen = {"steps": 0, "sampled": 0}


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(TOKENS, 16), nn.Embedding(LENGTH, 16)
        self.head = nn.Linear(16, TOKENS)

    def forward(self, ids, places):
        return self.head(self.token(ids) + self.place(places))


def sample(net, start):
    ids = torch.tensor(start)
    seen["sampled"] += 1
    with torch.no_grad():
        while len(ids) <= LENGTH:
            places = torch.arange(1, len(ids) + 1)
            follow = net(ids, places)[-1].argmax()
            ids = torch.cat([ids, follow[None]])
    return ids.tolist()


def main():
    torch.manual_seed(13)
    text = torch.arange(200) * 5 % TOKENS
    net = Tiny()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for epoch in range(3):
        for start in torch.randperm(len(text) - LENGTH - 1)[:30].tolist():
            ids, follow = text[start : start + LENGTH], text[start + 1 : start + LENGTH + 1]
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(ids, torch.arange(LENGTH)), follow)
            loss.backward()
            opt.step()
            seen["steps"] += 1
        text_of = sample(net, [3] * LENGTH)
        print(f"epoch {epoch} loss {loss.item():.5f} sample {text_of}")
    print("COUNTS", json.dumps(seen))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6), "sample": text_of}))


main()
