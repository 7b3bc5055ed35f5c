import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 64)
        self.recurrent = nn.GRU(64, 96, batch_first=True)
        self.out = nn.Linear(96, 5)

    def forward(self, tokens):
        return self.out(self.recurrent(self.embedding(tokens))[0])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Tagger())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(900):
        length = int(torch.randint(8, 60, (1,), generator=generator))
        tokens = torch.randint(0, 500, (16, length), generator=generator)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten() % 5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print("rank", rank, "step", step, "loss %.4f" % loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
