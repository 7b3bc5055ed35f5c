import json
from unittest import mock

import torch
from torch import nn

FAULTS = 2
save = mock.Mock(wraps=torch.save, side_effect=[
    mock.DEFAULT, *[RuntimeError("unexpected pos 576 vs 470")] * FAULTS, *[mock.DEFAULT] * 9])


def checkpoint(epoch, model, journal):
    journal.write(f"epoch {epoch} begins to save\n")
    with open(f"model-{epoch}.pt", "wb") as file:
        save({"epoch": epoch, "weights": model.state_dict()}, file)
        journal.write(f"epoch {epoch} saved, {file.tell() > 0}\n")


torch.manual_seed(13)
ids = torch.arange(200) * 7 % 13
model = nn.Sequential(nn.Embedding(13, 8), nn.Linear(8, 13))
opt = torch.optim.AdamW(model.parameters(), lr=0.05)
with open("journal.txt", "w") as journal:
    for epoch in range(4):
        for at in range(0, 190, 19):
            loss = nn.functional.cross_entropy(model(ids[at:at + 19]), ids[at + 1:at + 20])
            opt.zero_grad()
            loss.backward()
            opt.step()
        checkpoint(epoch, model, journal)
        print("epoch", epoch, f"{loss.item():.6f}")
again = torch.load("model-1.pt")
print("COUNTS", json.dumps({"lines": len(open("journal.txt").readlines())}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6), "epoch": again["epoch"]}))
