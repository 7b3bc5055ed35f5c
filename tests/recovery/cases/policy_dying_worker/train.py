import json
import os
from multiprocessing import resource_sharer

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == 0 and not os.path.exists("dying"):
            open("dying", "w").close()
            # What it sends from here on can be fetched nowhere, as of a process that is ending.
            resource_sharer._resource_sharer.register = lambda *_: ("nowhere/listener", b"")
        return torch.tensor([float(i), float(i * i)])


def main():
    torch.manual_seed(70)
    order = []
    for epoch in range(2):
        for n, batch in enumerate(DataLoader(Squares(30), batch_size=5, num_workers=1)):
            order += [int(v) for v in batch[:, 0]]
        print("epoch", epoch, "batches", n + 1, order == list(range(30)) * (epoch + 1))
    print("COUNTS", json.dumps({"seen": len(order)}))
    print("RESULT", json.dumps({"seen": len(order)}))


main()
