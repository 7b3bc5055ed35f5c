"""Steps, gradients and losses of training loops of different style."""

from typing import Callable, List

import pytest
from conftest import Job

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
"""


def script(body: str) -> str:
    import textwrap

    return HEAD + textwrap.dedent(body)


def loss_names(job: Job) -> List[str]:
    return [name for name in job.ring.scalar_names() if name.startswith("loss/")]


def test_two_models_and_optimizers_share_a_step(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        G, D = nn.Linear(3, 4), nn.Linear(4, 1)
        opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
        opt_d = torch.optim.Adam(D.parameters(), lr=2e-3)
        for _ in range(6):
            fake = G(torch.randn(5, 3))
            opt_d.zero_grad()
            (D(torch.randn(5, 4)).mean() - D(fake.detach()).mean()).backward()
            opt_d.step()
            opt_g.zero_grad()
            D(fake).mean().backward()
            opt_g.step()
        """)
    )
    ring = job.ring
    assert ring.last_step == 5
    assert len(loss_names(job)) == 2
    assert ring.named("gradient") == ["D.weight", "D.bias", "G.weight", "G.bias"]
    assert len(ring.stats) and ring.of_kind("gradient_not_zeroed") == []
    for name in loss_names(job):
        assert [s.step for s in ring.scalar(name)] == list(range(6))
    assert [s.value for s in ring.scalar("learning_rate/Adam#2/0")] == [2e-3]
    assert len(ring.of_kind("fit_started")) == 1


def test_an_optimizer_that_steps_more_often_makes_more_steps(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        G, D = nn.Linear(3, 4), nn.Linear(4, 1)
        opt_g, opt_d = torch.optim.SGD(G.parameters(), 0.1), torch.optim.SGD(D.parameters(), 0.1)
        for i in range(9):
            opt_d.zero_grad()
            D(torch.randn(5, 4)).mean().backward()
            opt_d.step()
            if i % 3 == 2:
                opt_g.zero_grad()
                D(G(torch.randn(5, 3))).mean().backward()
                opt_g.step()
        """)
    )
    names = [s.name for s in job.ring.stats if s.kind == "gradient"]
    assert names.count("D.weight") == 9
    assert names.count("G.weight") == 3
    assert [s.step for s in job.ring.scalar(loss_names(job)[0])] == list(range(9))


def test_an_optimizer_that_never_steps_holds_nothing_up(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net, other = nn.Linear(3, 1), nn.Linear(3, 1)
        idle = torch.optim.SGD(other.parameters(), 0.1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(30):
            opt.zero_grad()
            net(torch.randn(4, 3)).mean().backward()
            opt.step()
        """)
    )
    loss = job.ring.scalar(loss_names(job)[0])
    assert [s.step for s in loss] == list(range(30))


def test_accumulated_gradients_are_taken_once_complete(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(2, 1, bias=False)
        opt = torch.optim.SGD(net.parameters(), 0.0)
        for _ in range(3):
            opt.zero_grad()
            for _ in range(4):
                net(torch.ones(1, 2)).sum().backward()
            opt.step()
        """)
    )
    ring = job.ring
    assert [s.step for s in ring.scalar(loss_names(job)[0])] == [0] * 4 + [1] * 4 + [2] * 4
    assert [s.sum for s in ring.stats if s.kind == "gradient"] == [8.0] * 3
    assert ring.of_kind("gradient_not_zeroed") == []


def test_the_gradients_of_a_closure_are_seen(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(2, 1)
        opt = torch.optim.LBFGS(net.parameters(), max_iter=3)
        x, y = torch.randn(8, 2), torch.randn(8, 1)
        def closure():
            opt.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            return loss
        for _ in range(4):
            opt.step(closure)
        """)
    )
    ring = job.ring
    assert ring.last_step == 3
    assert len(ring.scalar(loss_names(job)[0])) >= 8
    assert ring.named("gradient") == ["weight", "bias"]
    assert {s.step for s in ring.stats if s.kind == "gradient"} == {0, 1, 2, 3}
    assert ring.of_kind("gradient_not_zeroed") == []


def test_sparse_frozen_and_tied_parameters(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(10, 4, sparse=True)
                self.frozen = nn.Linear(4, 4)
                self.frozen.requires_grad_(False)
                self.a = nn.Linear(4, 4, bias=False)
                self.b = nn.Linear(4, 4, bias=False)
                self.b.weight = self.a.weight
            def forward(self, x):
                return self.b(self.a(self.frozen(self.embed(x))))
        net = Net()
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            opt.zero_grad()
            net(torch.tensor([1, 2, 2])).sum().backward()
            opt.step()
        """)
    )
    ring = job.ring
    assert ring.named("gradient") == ["embed.weight", "a.weight"]
    assert ring.named("weight") == ["embed.weight", "frozen.weight", "frozen.bias", "a.weight"]
    facts = {f["name"]: f["detail"] for f in ring.facts("parameter")}
    assert facts["b.weight"]["tied_to"] == "a.weight"
    assert facts["frozen.weight"]["requires_grad"] is False
    assert ring.of_kind("not_captured") == []


def test_parameters_added_later_are_seen(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Sequential(nn.Linear(2, 2))
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for i in range(4):
            if i == 2:
                net.append(nn.Linear(2, 1))
                opt.add_param_group({"params": net[1].parameters(), "lr": 0.01})
            opt.zero_grad()
            net(torch.randn(3, 2)).sum().backward()
            opt.step()
        """)
    )
    ring = job.ring
    assert ring.named("gradient") == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert [(s.step, s.value) for s in ring.scalar("learning_rate/SGD/1")] == [(2, 0.01)]
    assert len(ring.of_kind("fit_started")) == 1


def test_parameters_without_a_module_get_a_name(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        w = torch.zeros(3, requires_grad=True)
        opt = torch.optim.SGD([w], 0.1)
        for _ in range(2):
            opt.zero_grad()
            (w - 1).pow(2).sum().backward()
            opt.step()
        """)
    )
    assert job.ring.named("gradient") == ["param_0"]
    assert job.losses() == pytest.approx([3.0, 1.92])


def test_a_new_model_begins_a_new_fit(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        kept = []
        for fold in range(3):
            model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
            optimizer = torch.optim.Adam(model.parameters())
            kept.append(model)
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.randn(4, 2)).mean().backward()
                optimizer.step()
        """)
    )
    ring = job.ring
    assert [(e.step, e.fields["fit"]) for e in ring.events if e.kind == "fit_started"] == [
        (0, 0),
        (4, 1),
        (8, 2),
    ]
    assert ring.named("weight") == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert {f["fit"] for f in ring.facts("module")} == {0, 1, 2}


def test_scaled_losses_and_gradients_are_told_unscaled(train: Callable[..., Job]) -> None:
    body = """
        net = nn.Linear(2, 1, bias=False)
        nn.init.constant_(net.weight, 1.0)
        opt = torch.optim.SGD(net.parameters(), 0.0 FUSED)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for _ in range(2):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = net(torch.ones(1, 2)).sum()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
    """
    job = train(script(body.replace("FUSED", "")))
    assert job.losses() == [2.0, 2.0]
    assert [s.value for s in job.ring.scalar("amp_scale")] == [1024.0, 1024.0]
    assert [s.sum for s in job.ring.stats if s.kind == "gradient"] == [2.0, 2.0]


def test_the_gradients_of_a_fused_optimizer_are_told_unscaled(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(2, 1, bias=False)
        opt = torch.optim.Adam(net.parameters(), 1e-3, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for _ in range(2):
            opt.zero_grad()
            scaler.scale(net(torch.ones(1, 2)).sum()).backward()
            scaler.step(opt)
            scaler.update()
        """)
    )
    assert job.code == 0, job.stderr
    assert [s.sum for s in job.ring.stats if s.kind == "gradient"] == [2.0, 2.0]


def test_the_norm_before_clipping_is_kept(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        from torch.nn.utils import clip_grad_norm_
        net = nn.Linear(2, 1, bias=False)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        net(torch.full((1, 2), 3.0)).sum().backward()
        clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        """)
    )
    norm = job.ring.scalar("gradient_norm_before_clip")
    assert [s.value for s in norm] == pytest.approx([18**0.5])
    gradients = [s.sum for s in job.ring.stats if s.kind == "gradient"]
    assert gradients == pytest.approx([2**0.5], rel=1e-3)


def test_gradients_that_are_never_zeroed_are_told(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), 0.01)
        for _ in range(6):
            net(torch.randn(4, 2)).mean().backward()
            opt.step()
        """)
    )
    (event,) = job.ring.of_kind("gradient_not_zeroed")
    assert event["optimizer"] == "SGD"
    assert event["parameter"] == "bias"
    assert event["where"]["line"] == 11


@pytest.mark.parametrize("place", ["start", "end", "in place", "model", "data"])
def test_gradients_zeroed_anywhere_are_no_fault(train: Callable[..., Job], place: str) -> None:
    job = train(
        script(f"""
        net = nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), 0.01)
        place = {place!r}
        for _ in range(6):
            if place == "start": opt.zero_grad()
            if place == "in place": opt.zero_grad(set_to_none=False)
            loss = net(torch.randn(4, 2)).mean()
            if place == "model": net.zero_grad()
            for p in net.parameters():
                if place == "data" and p.grad is not None: p.grad.data.zero_()
            loss.backward()
            opt.step()
            if place == "end": opt.zero_grad()
        """)
    )
    assert job.ring.of_kind("gradient_not_zeroed") == []


def test_learning_rates_are_told_when_they_change(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), 1.0)
        schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
        for _ in range(5):
            opt.zero_grad()
            net(torch.randn(4, 2)).mean().backward()
            opt.step()
            schedule.step()
        """)
    )
    rates = [(s.step, s.value) for s in job.ring.scalar("learning_rate/SGD/0")]
    assert rates == [(0, 1.0), (2, 0.5), (4, 0.25)]


def test_nothing_due_captures_nothing_but_losses(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), 1.0)
        for _ in range(3):
            opt.zero_grad()
            net(torch.randn(4, 2)).mean().backward()
            opt.step()
        """),
        plan="collection w kind=weight interval=2 what=stats\n",
    )
    assert {(s.kind, s.step) for s in job.ring.stats} == {("weight", 0), ("weight", 2)}
    assert len(job.losses()) == 3
