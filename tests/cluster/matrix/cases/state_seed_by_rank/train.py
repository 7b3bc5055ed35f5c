import torch
import torch.distributed as dist
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(30, 120)
        self.head = nn.Linear(120, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def reduce(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group('gloo')
    rank = dist.get_rank()
    torch.manual_seed(17 + rank)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(150):
        x = torch.randn(64, 30)
        loss = nn.functional.cross_entropy(model(x), x[:, :5].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        reduce(model)
        optimizer.step()
        if step % 50 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
