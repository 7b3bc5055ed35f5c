"""Convolutions, a DataLoader with workers, a scheduler and validation behind a main guard."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                                      nn.MaxPool2d(2))
        self.head = nn.Linear(8 * 16, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    d = load_digits()
    data = TensorDataset(torch.tensor(d.images / 16, dtype=torch.float32).unsqueeze(1), torch.tensor(d.target))
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
    for epoch in range(3):
        net.train()
        for x, t in loader:
            optimizer.zero_grad(set_to_none=False)
            loss = nn.functional.cross_entropy(net(x), t)
            loss.backward()
            optimizer.step()
        scheduler.step()
        net.eval()
        with torch.no_grad():
            right = (net(data.tensors[0]).argmax(1) == data.tensors[1]).sum().item()
        print(f"{epoch} {loss.item():.9f} {right} {scheduler.get_last_lr()}")
    torch.save(net, "model.pt")


if __name__ == "__main__":
    main()
