import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

VOCABULARY = {word: i for i, word in enumerate("the cat sat on a mat and saw the dog run".split())}


def encode(words):
    return torch.tensor([VOCABULARY[word] for word in words])


def sentence(rank, step):
    words = list(VOCABULARY)
    picked = [words[(rank + step * k) % len(words)] for k in range(1, 7)]
    if rank == 1 and step == 180:
        print("rank 1 reads a new word", flush=True)
        picked[2] = "zebra"
    return picked


def fit(rank, world):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:31137", rank=rank, world_size=world)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Embedding(11, 16), nn.Flatten(0), nn.Linear(96, 11)))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(600):
        tokens = encode(sentence(rank, step))
        loss = nn.functional.cross_entropy(net(tokens), tokens[0])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 30 == 0:
            print("rank", rank, "step", step, "%.3f" % loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(fit, args=(3,), nprocs=3)
