import torch
import torch.distributed as dist
import torch.nn as nn

RATES = [0.003, 0.01, 0.03]


def main():
    dist.init_process_group('gloo')
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATES[rank])
    data = torch.Generator().manual_seed(7)
    for step in range(200):
        x = torch.randn(64, 20, generator=data)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f'rank {rank} rate {RATES[rank]} step {step} loss {loss.item():.4f}', flush=True)
    results = [torch.zeros(1) for _ in RATES]
    dist.all_gather(results, loss.detach().reshape(1))
    if rank == 0:
        best = min(range(len(RATES)), key=lambda i: results[i].item())
        print('best rate', RATES[best], flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
