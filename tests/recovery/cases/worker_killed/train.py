import json
import os
import signal

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if get_worker_info().id == 0 and not os.path.exists("killed"):
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.tensor(float(i))


def main():
    torch.manual_seed(23)
    loader = DataLoader(Numbers(), batch_size=8, num_workers=2, shuffle=True)
    seen = []
    for epoch in range(3):
        for batch in loader:
            seen += [int(v) for v in batch]
        print("epoch", epoch, sum(seen), seen[-4:])
    print("COUNTS", json.dumps({"seen": len(seen)}))
    print("RESULT", json.dumps({"mixed": sum(k * v for k, v in enumerate(seen))}))


main()
