import torch
from torch import nn

torch.manual_seed(8)
torch.set_num_threads(1)
table = nn.Embedding(500, 16, sparse=True)
score = nn.Linear(16, 1)
optimizers = [torch.optim.SparseAdam(table.parameters(), lr=1e-2), torch.optim.SGD(score.parameters(), lr=0.1)]
for step in range(60):
    ids = torch.randint(0, 500, (64,))
    target = (ids % 7 == 0).float()
    loss = nn.functional.binary_cross_entropy_with_logits(score(table(ids)).squeeze(1), target)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    if step == 30:  # a parameter that comes later
        extra = nn.Parameter(torch.zeros(3))
        optimizers[1].add_param_group({"params": [extra], "lr": 0.01})
print(loss.item())
torch.save([table.weight, score.weight, score.bias], "weights.pt")
