import argparse
import json
import os

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv = nn.Conv2d(1, 5, 3)
        self.drop = nn.Dropout(0.25)
        self.fc = nn.Linear(45, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return F.log_softmax(self.fc(self.drop(x).flatten(1)), dim=1)


def train(args, model, x, y, optimizer, epoch):
    model.train()
    for batch_idx, part in enumerate(torch.randperm(len(x)).split(args.batch_size)):
        optimizer.zero_grad()
        loss = F.nll_loss(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
    print('Train Epoch: {} Loss: {:.6f}'.format(epoch, loss.item()))
    return batch_idx + 1, loss.item()


def save(model, path):
    torch.save(model.state_dict(), path)
    return os.path.getsize(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--batch-size', type=int, default=32)
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--out', default='models/2026/digits.pt')
    args = parser.parse_args()
    torch.manual_seed(7)
    x = torch.rand(160, 1, 8, 8)
    y = x.view(160, 4, 16).sum(2).argmax(1)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters())
    batches = 0
    for epoch in range(1, args.epochs + 1):
        n, loss = train(args, model, x, y, optimizer, epoch)
        batches += n
    size = save(model, args.out)
    print("saved", args.out, size > 1000)
    print("COUNTS", json.dumps({"batches": batches}))
    print("RESULT", json.dumps({"loss": round(loss, 6)}))


if __name__ == '__main__':
    main()
