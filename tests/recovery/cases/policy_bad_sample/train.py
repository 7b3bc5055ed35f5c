import json

import torch
from decoder import decode
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, blobs):
        self.blobs = blobs

    def __len__(self):
        return len(self.blobs)

    def __getitem__(self, index):
        return torch.tensor(decode(self.blobs[index]), dtype=torch.float32)


torch.manual_seed(48)
blobs = [bytes([7, k % 100, k // 2, 9]) for k in range(400)]
blobs[233] = blobs[233][:2]
loader = DataLoader(Images(blobs), batch_size=50)
batches = seen = 0
total = 0.0
for images in loader:
    batches += 1
    seen += len(images)
    total += images.mean().item()
print("ended after", batches, "batches", seen >= 350)
print("COUNTS", json.dumps({"batches": batches, "seen": seen}))
print("RESULT", json.dumps({"finite": total == total}))
