"""The line at which a NaN was born."""

import textwrap
from typing import Any, Callable, Dict

import pytest
from conftest import Job
from test_steps import HEAD

LOSS_CODE = """
w = nn.Parameter(torch.ones(3))
opt = torch.optim.SGD([w], 0.1)
for i in range(5):
    x = torch.rand(4, 3) + 1.0
    if i == 3:
        x = x * 200
    scaled = torch.exp(x * w)  # BORN exp
    loss = (scaled / scaled.sum()).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

MODULE = """
class Norm(nn.Module):
    def forward(self, x):
        return x / x.std(0)  # BORN div
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(3, 4), Norm(), nn.Linear(4, 1)
    def forward(self, x):
        return self.b(self.norm(self.a(x)))
def train(net, opt, batches):
    for x in batches:
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
net = Net()
train(net, torch.optim.Adam(net.parameters()), [torch.randn(4, 3), torch.ones(4, 3)])
"""

BACKWARD = """
net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), 0.1)
for i in range(4):
    h = net(torch.randn(5, 3))
    h = h * 0 if i == 2 else h
    loss = torch.sqrt((h * h).sum(1)).mean()  # BORN sqrt
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

DATA = """
net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
batches = [{"x": torch.randn(3, 2)} for _ in range(3)]
batches[1]["x"][0, 1] = float("nan")
for batch in batches:  # BORN load
    loss = net(batch["x"]).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

UPDATE = """
w = nn.Parameter(torch.zeros(2))
opt = torch.optim.Adam([w], 1e-2, eps=0.0)
for _ in range(3):
    opt.zero_grad()
    (w * 0).sum().backward()
    opt.step()  # BORN optimizer.step
"""

SAMPLES = """
from torch.utils.data import DataLoader, Dataset
class Ratios(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, at):
        over, under = torch.tensor([1.0 * at, 1.0]), torch.tensor([1.0, 1.0 + at])
        over[1] = 0.0 if at == 5 else 1.0
        under = under * (at != 5)
        x = over / under  # BORN data
        return x.clamp(0, 5)
net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
for x in DataLoader(Ratios(), batch_size=2):
    x = x.to("cpu")
    loss = net(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

COLLATED = """
from torch.utils.data import DataLoader
def collate(items):
    x = torch.stack(items)
    return (x - x.mean(0)) / x.std(0)  # BORN data
net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
data = [torch.randn(2) for _ in range(8)]
data[4] = data[5]
for x in DataLoader(data, batch_size=2, collate_fn=collate):
    loss = net(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

PREPARED = """
def scaled(x):
    spread = x.std(0)
    return (x - x.mean(0)) / spread  # BORN data
X = torch.randn(8, 3)
X[:, 1] = 2.0
X = scaled(X)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    for at in torch.randperm(8).split(4):
        loss = net(X[at]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""

TABLE = """
counts = torch.tensor([3.0, 5.0, 0.0])
prior = torch.log(counts / counts.sum())  # BORN data
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    loss = F.cross_entropy(net(torch.randn(4, 3)) + prior, torch.tensor([0, 1, 2, 0]))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

# NaN in a few rows of a gradient, which no sentinel looks at.
ROWS = """
net = nn.Embedding(50, 4)
head = nn.Linear(4, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.1)
for step in range(12):
    at = torch.arange(step, step + 3) + 10
    v = net(at) * (at != 15)[:, None]
    v = v / (v.pow(2).sum(1, keepdim=True).sqrt() + 1e-6)  # BORN sqrt
    loss = head(v).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def born(source: str) -> Dict[str, Any]:
    lines = source.splitlines()
    number = next(i for i, line in enumerate(lines, 1) if "# BORN" in line)
    return {"line": number, "operation": lines[number - 1].rpartition("# BORN ")[2]}


@pytest.mark.parametrize(
    "body", [LOSS_CODE, MODULE, BACKWARD, DATA, UPDATE] + [SAMPLES, COLLATED, PREPARED, TABLE, ROWS]
)
def test_the_line_is_named(train: Callable[..., Job], body: str) -> None:
    # GIVEN a script in which one line makes the first value that is not finite
    source = HEAD + body
    # WHEN it runs, watched and not
    job = train(source + "print([p.tolist() for g in opt.param_groups for p in g['params']])\n"
                if "opt =" in body else source)  # fmt: skip
    # THEN that line and operation are told, once
    (event,) = job.ring.of_kind("nan_origin")
    expected = born(source)
    assert event["where"]["line"] == expected["line"], event
    assert expected["operation"].split("_")[0] in event["operation"]
    assert job.code == 0, job.stderr
    assert job.stderr == ""


def test_the_module_and_expression_are_named(train: Callable[..., Job]) -> None:
    (event,) = train(HEAD + MODULE).ring.of_kind("nan_origin")
    assert event["module"] == "norm"
    assert event["expression"] == "x / x.std(0)" or "std" in event["expression"]
    assert event["where"]["function"] == "forward"


def test_the_search_leaves_the_job_alone(train: Callable[..., Job]) -> None:
    source = HEAD + textwrap.dedent("""
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    opt = torch.optim.Adam(net.parameters())
    for i in range(6):
        print("step", i)
        loss = net(torch.randn(4, 3)).mean()
        if i == 2:
            loss = loss * torch.log(torch.zeros(()))
        opt.zero_grad()
        loss.backward()
        if i != 2:
            opt.step()
    print([v.double().sum().item() for v in net.state_dict().values()], torch.rand(1).item())
    """)
    watched, plain = train(source), train(source, watched=False)
    assert watched.stdout == plain.stdout
    assert len(watched.ring.of_kind("nan_origin")) == 1


def test_infinities_on_purpose_are_no_alarm(train: Callable[..., Job]) -> None:
    source = HEAD + textwrap.dedent("""
    w = nn.Parameter(torch.randn(4, 4))
    opt = torch.optim.SGD([w], 0.1)
    best = float("inf")
    for _ in range(4):
        mask = torch.full((4, 4), float("-inf")).triu(1)
        loss = ((torch.randn(4, 4) @ w) + mask).softmax(-1).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        best = min(best, loss.item())
    """)
    assert train(source).ring.of_kind("nan_origin") == []
