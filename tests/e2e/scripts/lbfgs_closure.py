import torch

torch.manual_seed(2)
torch.set_num_threads(1)
x = torch.linspace(0, 1, 50)
y = 3 * torch.sin(4 * x) + 0.1 * torch.randn(50)
a = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
optimizer = torch.optim.LBFGS([a], lr=0.5, max_iter=8)
calls = 0
for step in range(10):
    def closure():
        global calls
        calls += 1
        optimizer.zero_grad()
        loss = ((a[0] * torch.sin(a[1] * x) - y) ** 2).mean()
        loss.backward()
        return loss
    print(step, float(optimizer.step(closure)), calls)
open("a.bin", "wb").write(a.detach().numpy().tobytes())
