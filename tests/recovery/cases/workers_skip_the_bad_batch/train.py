import json

import torch
from torch.utils.data import DataLoader, Dataset

BROKEN = 21


class Table(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        text = "oops" if i == BROKEN else str(i)
        return torch.tensor([float(text) / 48, 1.0]), torch.tensor([float(i % 5)])


def main():
    torch.manual_seed(21)
    loader = DataLoader(Table(), batch_size=6, num_workers=2)
    w = torch.zeros(2, 1, requires_grad=True)
    batches = seen = 0
    for x, y in loader:
        batches += 1
        seen += len(x)
        loss = (x @ w - y).square().mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
        print("batch", batches, round(loss.item(), 5))
    print("COUNTS", json.dumps({"batches": batches, "seen": seen}))
    print("RESULT", json.dumps({"w": [round(v, 6) for v in w.flatten().tolist()]}))


if __name__ == "__main__":
    main()
