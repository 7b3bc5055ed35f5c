"""Steps at which nothing is due go a short way; nothing of it may be missing or wrong."""

from typing import Callable

import pytest
from conftest import Job
from test_nan_origin import born
from test_steps import script

NOTHING = "collection none kind=all interval=0 steps=1000000000 what=stats\n"

LOOP = """
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    x = torch.randn(4, 8)
    for i in range(60):
        rate = opt.param_groups[0]["lr"]
        if i == 40: net, x = net.double(), x.double()
        loss = net(x).pow(2).mean()
        print(i, rate, loss.item())
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
"""

NAN = """
w = nn.Parameter(torch.ones(8))
opt = torch.optim.SGD([w], 1e-4)
for i in range(60):
    x = torch.ones(4, 8)
    if i == 44:
        x = x * -1
    hidden = torch.sqrt(x * w)  # BORN sqrt
    opt.zero_grad()
    hidden.sum().backward()
    opt.step()
"""

NAN_BACKWARD = """
w = nn.Parameter(torch.ones(8))
opt = torch.optim.SGD([w], 0.01)
for i in range(60):
    hidden = w * (0 if i == 44 else 1)
    loss = torch.sqrt(hidden).sum()  # BORN sqrt
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("plan", [NOTHING, ""])
def test_each_loss_and_rate_is_recorded(train: Callable[..., Job], plan: str) -> None:
    # GIVEN a loop whose rate changes at each step, and the type of its numbers at step 40
    job = train(script(LOOP), plan=plan)
    # WHEN nothing, or something at every tenth step, is due
    told = [line.split() for line in job.stdout.splitlines()]
    # THEN each step has its loss and its rate, in order
    (loss,) = [name for name in job.ring.scalar_names() if name.startswith("loss/")]
    assert [(s.step, s.value) for s in job.ring.scalar(loss)] == [
        (int(step), float(value)) for step, _, value in told
    ]
    assert [(s.step, s.value) for s in job.ring.scalar("learning_rate/SGD/0")] == [
        (int(step), float(rate)) for step, rate, _ in told
    ]
    assert job.ring.last_step == 59
    assert job.ring.of_kind("not_captured") == []


@pytest.mark.parametrize("body", [NAN, NAN_BACKWARD])
def test_a_nan_at_such_a_step_is_found(train: Callable[..., Job], body: str) -> None:
    source = script(body)
    job = train(source, plan=NOTHING)
    (event,) = job.ring.of_kind("nan_origin")
    assert event["where"]["line"] == born(source)["line"], event
    assert [e.step for e in job.ring.events if e.kind == "nan_origin"] == [44]


def test_another_optimizer_and_line_are_seen(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(8, 1)
        first = torch.optim.SGD(net.parameters(), 0.01)
        for i in range(30):
            first.zero_grad()
            net(torch.randn(4, 8)).mean().backward()
            first.step()
        second = torch.optim.Adam(net.parameters(), 0.01)
        for i in range(30):
            second.zero_grad()
            net(torch.randn(4, 8)).mean().backward()
            second.step()
        """),
        plan=NOTHING,
    )
    assert len(job.losses()) == 60
    assert job.ring.scalar("learning_rate/Adam/0")[0].step == 30
    assert len([n for n in job.ring.scalar_names() if n.startswith("loss/")]) == 2


def test_a_new_model_is_told_with_its_loss(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        for fold in range(2):
            net = nn.Linear(8, 1)
            opt = torch.optim.SGD(net.parameters(), 0.01)
            for i in range(30):
                opt.zero_grad()
                net(torch.randn(4, 8)).mean().backward()
                opt.step()
        """),
        plan=NOTHING,
    )
    assert [f["fit"] for f in job.ring.facts("loss")] == [0, 1]
    assert len(job.losses()) == 60
