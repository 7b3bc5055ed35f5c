"""Whole programs that crash in their training and end with the numbers of an undisturbed run."""

from pathlib import Path
from typing import Any, Dict, List, Optional

import crashing
import pytest
import torch
from paramedic.recovery import micro_batch, rewind, samples
from paramedic.recovery.crash import Crash, Repair

HEAD = """
import itertools, random
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(4)
random.seed(4)

class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        trouble("backward")
        return gradient
"""

# A step in a function of its own, dropout, batch normalisation, momentum.
STEP_IN_A_FUNCTION = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)
    def forward(self, x):
        h = F.dropout(self.n(self.a(x)), 0.2, self.training)
        trouble("forward")
        return self.b(Once.apply(h.relu()))

class Trainer:
    def __init__(self):
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 7, 0.5)
        self.seen = 0
    def train_step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return loss.item()
    def fit(self, loader):
        for epoch in range(2):
            for x, y in loader:
                self.last = self.train_step(x, y)
                self.seen += 1

trainer = Trainer()
trainer.fit(DataLoader(TensorDataset(torch.randn(80, 6), torch.randint(0, 3, (80,))), 8, True))
result = [trainer.seen, trainer.last, *trainer.net.state_dict().values(), torch.rand(2)]
"""

CLOSURES = """
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(net.parameters(), 0.5, max_iter=4, history_size=3)
x = torch.randn(30, 4)
for step in range(8):
    def closure():
        optimizer.zero_grad()
        loss = (Once.apply(net(x)) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        return loss
    optimizer.step(closure)
result = list(net.parameters())
"""

TWO_OPTIMIZERS = """
maker, judge = nn.Linear(3, 5), nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 1))
make = torch.optim.Adam(maker.parameters(), 0.01, betas=(0.5, 0.9))
judging = torch.optim.RMSprop(judge.parameters(), 0.01)
for real in torch.randn(240, 5).split(12):
    judging.zero_grad()
    fake = maker(torch.randn(12, 3))
    (judge(fake.detach()).mean() - judge(real).mean()).backward()
    judging.step()
    make.zero_grad()
    (-Once.apply(judge(fake)).mean()).backward()
    make.step()
result = [*maker.parameters(), *judge.parameters(), torch.rand(2)]
"""

ACCUMULATED = """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(net.parameters(), 0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for number, x in enumerate(torch.randn(120, 4).split(5)):
    with torch.autocast("cpu", torch.bfloat16):
        loss = Once.apply(net(x)).float().pow(2).mean() / 3
    scaler.scale(loss).backward()
    if number % 3 == 2:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
result = [*net.parameters(), scaler.get_scale()]
"""

BY_HAND = """
weight = torch.zeros(4, 1, requires_grad=True)
for x in torch.randn(100, 4).split(5):
    loss = (Once.apply(x @ weight) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
result = [weight]
"""

PROGRAMS = {
    "a step in a function": STEP_IN_A_FUNCTION,
    "closures": CLOSURES,
    "two optimizers": TWO_OPTIMIZERS,
    "accumulated": ACCUMULATED,
    "by hand": BY_HAND,
}


@pytest.fixture(autouse=True)
def torch_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaders are watched as from the import of torch on in a run; models run whole again."""
    base = torch.utils.data.dataloader._BaseDataLoaderIter
    monkeypatch.setattr(base, "_next_index", base._next_index)
    monkeypatch.setattr(samples, "_bad", {})
    samples.install()
    monkeypatch.setattr(torch.nn.Module, "__call__", torch.nn.Module.__call__)
    # All programs run in this process: none may use up what another has for looking and copying.
    monkeypatch.setattr(rewind, "FREE_SEARCHES", 10**9)
    monkeypatch.setattr(rewind.rewinder()._pace, "credit_ns", 1e12)
    monkeypatch.setattr(micro_batch, "_splitters", [])


class Trouble:
    """Raises at the n-th time that it is asked at a place."""

    def __init__(self, where: str = "", at: int = -1) -> None:
        self.where, self.left = where, at

    def __call__(self, where: str) -> None:
        if where == self.where:
            self.left -= 1
            if self.left == 0:
                raise ConnectionError("lost")


def library(trouble: Trouble) -> Any:
    """The same, but as code that is not the project's: the statement that called it is retried."""

    def call(where: str) -> None:
        trouble(where)

    return call


def numbers(result: List[Any]) -> List[Any]:
    return [v.tolist() if isinstance(v, torch.Tensor) else v for v in result]


def run(folder: Path, body: str, trouble: Any, answers: Any = crashing.retry) -> Any:
    space, decider = crashing.run(folder, HEAD + body, answers, trouble=library(trouble))
    return space, decider


@pytest.mark.parametrize("kind", ["retry", "rewind"])
@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_a_crash_inside_backward_leaves_no_trace(tmp_path: Path, program: str, kind: str) -> None:
    expected, _ = run(tmp_path, PROGRAMS[program], Trouble())
    for at in (1, 2, 11):
        space, decider = run(
            tmp_path, PROGRAMS[program], Trouble("backward", at), [Repair(kind)] * 2
        )
        assert numbers(space["result"]) == numbers(expected["result"]), decider.reasons
        assert len(decider.resumes) == 1


def test_a_rewind_of_a_forward_pass_leaves_no_trace(tmp_path: Path) -> None:
    expected, _ = run(tmp_path, STEP_IN_A_FUNCTION, Trouble())
    space, _ = run(tmp_path, STEP_IN_A_FUNCTION, Trouble("forward", 13), [Repair("rewind")])
    assert numbers(space["result"]) == numbers(expected["result"])


def test_a_skipped_iteration_leaves_no_half_gradients(tmp_path: Path) -> None:
    body = """
    weights = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD(weights, 0.1)
    for number, x in enumerate(torch.arange(24.0).split(4)):
        if number == leave_out:
            continue
        loss = ((Once.apply(x * weights[0]) - x * weights[1]) * x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    result = list(weights)
    """
    names = {"trouble": library(Trouble())}
    expected, _ = crashing.run(tmp_path, HEAD + _dedented(body), leave_out=3, **names)
    space, _ = crashing.run(
        tmp_path,
        HEAD + _dedented(body),
        [Repair("skip")],
        leave_out=-1,
        trouble=library(Trouble("backward", 4)),
    )
    assert numbers(space["result"]) == numbers(expected["result"])


def test_a_batch_skipped_in_its_forward_pass_counts_for_no_running_statistics(
    tmp_path: Path,
) -> None:
    body = """
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.BatchNorm1d(6))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for x in torch.randn(37, 4).split(6):
        if len(x) == leave_out:
            continue
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()
    result = list(net.state_dict().values())
    """
    expected, _ = crashing.run(tmp_path, HEAD + _dedented(body), leave_out=1)
    space, decider = crashing.run(tmp_path, HEAD + _dedented(body), [Repair("skip")], leave_out=-1)
    assert "more than 1 value" in str(decider.crashes[0].exception)
    assert numbers(space["result"]) == numbers(expected["result"])


def test_an_evaluation_that_does_not_fit_runs_in_parts(tmp_path: Path) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)
            self.seen = []
        def forward(self, x):
            self.seen.append(len(x))
            if len(x) > 5:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return self.norm(self.inner(x))
    net = Net().eval()
    data = torch.randn(24, 4)
    total = calls = 0
    with torch.no_grad():
        for x in data.split(8):
            total += net(x).sum().item()
            calls += 1
    result = [total, calls, (net.norm(net.inner(data))).sum().item()]
    """
    space, decider = crashing.run(tmp_path, HEAD + _dedented(body), [Repair("split_batch")])
    assert space["result"][0] == pytest.approx(space["result"][2], abs=1e-4)
    assert space["result"][1] == 3
    assert [one.kind for one in decider.resumes] == ["split_batch"]


def test_a_backward_pass_that_does_not_fit_runs_in_parts(tmp_path: Path) -> None:
    class Library(torch.autograd.Function):
        room = 16

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            if len(gradient) > Library.room:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return gradient

    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 3)
        def forward(self, x):
            return self.b(library(self.a(x)).relu())
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    result = []
    for x in torch.randn(160, 6).split(16):
        optimizer.zero_grad()
        loss = (net(x) - x[:, :3]).pow(2).mean()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    """
    names = {"library": Library.apply}
    expected, _ = crashing.run(tmp_path, HEAD + _dedented(body), **names)
    Library.room = 6
    answers = [Repair("split_batch"), Repair("split_batch")]
    space, decider = crashing.run(tmp_path, HEAD + _dedented(body), answers, **names)
    assert space["result"] == pytest.approx(expected["result"], abs=1e-6)
    assert len(decider.resumes) == 2


LOADING = """
class Images(Dataset):
    def __len__(self):
        return 20
    def __getitem__(self, index):
        if index == bad:
            decode(index)
        return torch.tensor(float(index))

def around(source):
    return source

seen = []
for epoch in range(2):
    for WHAT:
        seen.append([int(v) for v in batch])
result = seen
"""

HEADERS = {
    "plain": "batch in DataLoader(Images(), 4, num_workers=workers)",
    "enumerate": "number, batch in enumerate(DataLoader(Images(), 4, num_workers=workers))",
    "zip": "batch, _ in zip(DataLoader(Images(), 4, num_workers=workers), itertools.count())",
    "a bar": "batch in bar(DataLoader(Images(), 4, num_workers=workers))",
}


def bar(source: Any) -> Any:
    """A progress bar of a library: a generator, which an exception ends."""
    yield from _passed_on(source)


def _passed_on(source: Any) -> Any:
    for item in source:  # noqa: UP028 (as libraries have it)
        yield item


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("header", sorted(HEADERS))
def test_a_bad_sample_is_left_out_under_any_loop(tmp_path: Path, header: str, workers: int) -> None:
    def decode(index: int) -> None:
        raise OSError("image file is truncated")

    def answer(crash: Crash) -> Optional[Repair]:
        return Repair("skip", "policy", options={"sample": True, "max_share": 0.01})

    names: Dict[str, Any] = {"decode": decode, "bar": bar, "workers": workers, "bad": 9}
    body = LOADING.replace("WHAT", HEADERS[header])
    space, decider = crashing.run(tmp_path, HEAD + body, answer, **names)
    batches = [list(range(first, first + 4)) for first in range(0, 20, 4)]
    expected = [[number for number in batch if number != 9] for batch in batches]
    # Each epoch has a data set of its own.
    assert space["result"] == expected * 2
    assert len(decider.resumes) == 2


def _dedented(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)
