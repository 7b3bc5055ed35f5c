import json

import torch

calls = {"predicted": 0, "stepped": 0, "drawn": 0}


@torch.no_grad()
def predict(net, x):
    return net(x + 0.01 * torch.randn_like(x))


def main():
    torch.manual_seed(79)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    x = torch.randn(80, 4)
    y = x[:, :1] * x[:, 1:2]
    for step in range(50):
        rows = torch.randint(0, 80, (16,))
        opt.zero_grad()
        loss = (predict(net, x[rows]) - y[rows]).square().mean()
        loss.backward()
        opt.step()
        calls["stepped"] += 1
        if step % 10 == 9:
            print(step + 1, round(loss.item(), 5), rows[:4].tolist())
    print("COUNTS", json.dumps(calls))
    print("RESULT", json.dumps({"loss": round(loss.item(), 6)}))


main()
