import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(9)
torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(50):
        x = torch.randn(16, 6)
        with model.no_sync() if step % 2 == 0 else torch.enable_grad():
            loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
            loss.backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    print(loss.item(), sorted(k for k in os.environ if k.startswith("MASTER")))
    torch.save(model.state_dict(), "weights.pt")
    dist.destroy_process_group()
