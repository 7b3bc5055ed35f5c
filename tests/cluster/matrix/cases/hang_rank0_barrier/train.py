import torch
import torch.distributed as dist
import torch.nn as nn


def save(model, step):
    print("rank 0 saves", flush=True)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    dist.barrier()
    return state


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(20, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(400):
        loss = model(torch.randn(16, 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if step == 40 and rank == 0:
            save(model, step)
    dist.destroy_process_group()


main()
