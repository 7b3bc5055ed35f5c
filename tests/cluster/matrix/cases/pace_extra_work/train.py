import torch
import torch.distributed as dist
import torch.nn as nn


def spectrum(weight, times):
    """Largest singular value by the power method."""
    v = torch.ones(weight.shape[1])
    square = weight.T @ weight
    for _ in range(times):
        square = square @ square
        square = square / square.norm()
    return (square @ v).norm()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(80, 400), nn.Tanh(), nn.Linear(400, 400), nn.Tanh(), nn.Linear(400, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    for step in range(120):
        x = torch.randn(32, 80, generator=generator)
        loss = (model(x) - x[:, :1]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(world)
        if rank == 3:
            norm = spectrum(model[2].weight.detach(), 24)
        optimizer.step()
        if step % 20 == 0:
            print("rank", rank, "step", step, "loss %.4f" % loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
