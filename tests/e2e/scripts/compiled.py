import torch
from torch import nn

torch.manual_seed(7)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 8))
fast = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(16, 8)
    loss = (fast(x) - x.flip(1)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
counters = torch._dynamo.utils.counters
print(loss.item(), dict(counters["stats"]), dict(counters["graph_break"]))
torch.save(model.state_dict(), "weights.pt")
