import json

import torch
from torch.utils.data import DataLoader, Dataset

reads = []


class Moons(Dataset):
    offsets = {0: 0.0, 1: 0.7}

    def __init__(self, n):
        self.kinds = [0 if i % 7 else 1 for i in range(n)]
        self.kinds[31] = 2

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, i):
        reads.append(i)
        offset = self.offsets[self.kinds[i]]
        angle = torch.tensor(i / 10.0)
        return torch.stack([angle.cos() + offset, angle.sin()]), torch.tensor(self.kinds[i] % 2)


torch.manual_seed(20)
loader = DataLoader(Moons(60), batch_size=12, shuffle=True)
net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
batches = 0
for epoch in range(3):
    for x, y in loader:
        batches += 1
        loss = torch.nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("epoch", epoch, round(loss.item(), 5), reads[-3:])
print("COUNTS", json.dumps({"batches": batches, "reads": len(reads)}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))
