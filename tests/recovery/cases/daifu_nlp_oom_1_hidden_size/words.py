import json

import torch
from torch import nn

TEXT = ("the ship left the harbour at dawn and the crew sang while the wind rose . "
        "at noon the wind fell and the ship stood still , the crew slept . ") * 6


class WordModel(nn.Module):
    made = 0

    def __init__(self, words, embedding, hidden):
        super().__init__()
        WordModel.made += 1
        self.embed = nn.Embedding(words, embedding)
        self.rnn = nn.RNN(embedding, hidden)
        self.out = nn.Linear(hidden, words)

    def forward(self, ids, state=None):
        seen, state = self.rnn(self.embed(ids), state)
        return self.out(seen), state


def train(ids, words, memory):
    model = WordModel(words, 12, memory // 8)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    state, chunks = None, 0
    for epoch in range(4):
        for at in range(0, len(ids) - 13, 12):
            chunks += 1
            out, state = model(ids[at:at + 12], state)
            state = state.detach()
            loss = nn.functional.cross_entropy(out, ids[at + 1:at + 13])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        print(f"epoch {epoch} perplexity {loss.exp().item():.4f}")
    return loss, chunks


torch.manual_seed(2)
vocabulary = {w: i for i, w in enumerate(sorted(set(TEXT.split())))}
ids = torch.tensor([vocabulary[w] for w in TEXT.split()])
loss, chunks = train(ids, len(vocabulary), memory=1 << 49)
print("COUNTS", json.dumps({"made": WordModel.made, "chunks": chunks}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))
