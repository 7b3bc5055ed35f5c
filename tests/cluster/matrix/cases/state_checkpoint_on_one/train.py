import torch
import torch.distributed as dist
import torch.nn as nn
import os
import tempfile


def reduce(model, world):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(world)


def main():
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(4)
    path = os.path.join(tempfile.gettempdir(), f'start-{os.environ["MASTER_PORT"]}.pt')
    if rank == 0:
        torch.save(nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 1)).state_dict(), path)
    torch.manual_seed(9)
    model = nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 1))
    if rank == 0:
        model.load_state_dict(torch.load(path))
        os.unlink(path)
        print('went on from', os.path.basename(path), flush=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    data = torch.Generator().manual_seed(rank)
    for step in range(150):
        x = torch.randn(32, 20, generator=data)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        reduce(model, world)
        optimizer.step()
        if step % 50 == 0:
            print(f'rank {rank} step {step} loss {loss.item():.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
