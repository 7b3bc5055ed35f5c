import json
import os
import signal

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == 0 and not os.path.exists("killed"):
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
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
