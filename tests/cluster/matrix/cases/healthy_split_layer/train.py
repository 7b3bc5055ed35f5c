import torch
import torch.distributed as dist
import torch.nn as nn


class Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Split(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.up = nn.Linear(24, 96 // world)
        self.down = nn.Linear(96 // world, 24, bias=False)

    def forward(self, x):
        hidden = torch.relu(self.up(Copied.apply(self.norm(x))))
        return Reduced.apply(self.down(hidden))


def main():
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(40 + rank)  # each rank holds a part of the layer
    model = Split(world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(3)
    for step in range(150):
        x = torch.randn(32, 24, generator=data)
        loss = nn.functional.mse_loss(model(x), x.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
