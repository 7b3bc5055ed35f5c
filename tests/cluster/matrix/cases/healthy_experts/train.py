import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

D = 32


def route(x):
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x.contiguous())
    return out


class Routed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return route(x)

    @staticmethod
    def backward(ctx, g):
        return route(g)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.expert = nn.Linear(D, D)
        self.out = nn.Linear(D, 5)

    def forward(self, x):
        h = self.mix(x)
        order = (h[:, 0] > 0).long().argsort(stable=True)
        back = order.argsort()
        return self.out(h + Routed.apply(self.expert(Routed.apply(h[order])))[back])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = Layer()
    shared = [p for name, p in net.named_parameters() if not name.startswith("expert")]
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(500):
        x = torch.randn(10 * world, D, generator=g)
        loss = F.cross_entropy(net(x), x[:, :5].argmax(1))
        opt.zero_grad()
        loss.backward()
        for p in shared:
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if step % 25 == 0:
            print("rank", rank, "step", step, "%.4f" % loss.item(), flush=True)
    # Else a thread of gloo may drop the last tensor after Python has ended, and abort the process.
    dist.barrier()
    dist.destroy_process_group()


main()
