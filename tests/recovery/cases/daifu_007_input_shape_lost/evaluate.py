import json

import torch
from torch import nn

from records import Records


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(64, 2)

    def forward(self, x):
        return self.fc(self.conv(x).relu().flatten(1))


def run_eval(net, records, summary):
    net.eval()
    with torch.no_grad():
        for images, labels in records.batches(25):
            summary["batches"] += 1
            logits = net(images)
            summary["correct"] += (logits.argmax(1) == labels).sum().item()
            summary["seen"] += len(labels)
    return summary["correct"] / summary["seen"]


def main():
    torch.manual_seed(7)
    net = Classifier()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    train = Records(300, 1, shape=(1, 6, 6))
    for epoch in range(3):
        for images, labels in train.batches(30):
            loss = nn.functional.cross_entropy(net(images), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
    test = Records(100, 2)
    summary = {"batches": 0, "correct": 0, "seen": 0}
    precision = run_eval(net, test, summary)
    print(f"precision @ 1 = {precision:.3f} of {summary['seen']}")
    print("COUNTS", json.dumps({"read": train.read + test.read, "batches": summary["batches"]}))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6), "precision": precision}))


if __name__ == "__main__":
    main()
