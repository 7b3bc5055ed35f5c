import json

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

seen = {"items": 0, "batches": 0, "steps": 0}


class Sentences(Dataset):
    def __init__(self):
        made = torch.Generator().manual_seed(5)
        lengths = [6] * 20 + [4, 6, 5, 6] * 3
        self.rows = [torch.randint(1, 30, (n,), generator=made) for n in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        seen["items"] += 1
        return self.rows[i], int(self.rows[i].sum()) % 2


def collate(samples):
    seen["batches"] += 1
    rows, labels = zip(*samples)
    return torch.stack(rows), torch.tensor(labels)


def main():
    torch.manual_seed(1)
    loader = DataLoader(Sentences(), batch_size=4, collate_fn=collate)
    embed, head = nn.Embedding(30, 8, padding_idx=0), nn.Linear(8, 2)
    opt = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
    for epoch in range(3):
        total = 0.0
        for rows, labels in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(head(embed(rows).mean(1)), labels)
            loss.backward()
            opt.step()
            seen["steps"] += 1
            total += loss.item()
        print(f"epoch {epoch} loss {total:.5f}")
    print("COUNTS", json.dumps(seen))
    print("RESULT", json.dumps({"loss": round(total, 6)}))


main()
