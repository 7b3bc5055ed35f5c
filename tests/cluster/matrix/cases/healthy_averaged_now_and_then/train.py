import torch
import torch.distributed as dist
import torch.nn as nn

INTERVAL = 10


def average(model, world):
    with torch.no_grad():
        for parameter in model.parameters():
            dist.all_reduce(parameter)
            parameter /= world


def main():
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    data = torch.Generator().manual_seed(rank)
    for step in range(1, 201):
        x = torch.randn(32, 20, generator=data)
        loss = nn.functional.mse_loss(model(x), x[:, :1] * x[:, 1:2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % INTERVAL == 0:
            average(model, world)
        if step % 50 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    # Else a thread of gloo may drop the last tensor after Python has ended, and abort the process.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
