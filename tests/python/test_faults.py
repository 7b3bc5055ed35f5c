"""Faults that are seen in the process itself: what is told of them, and what is no fault."""

from typing import Any, Callable, Dict, List

import pytest
from conftest import Job
from test_steps import script


def lines_of(job: Job, kind: str) -> List[int]:
    return [int(event["where"]["line"]) for event in job.ring.of_kind(kind)]


def test_activations_that_are_functions_have_the_name_of_their_layer(
    train: Callable[..., Job],
) -> None:
    job = train(
        script("""
        from torch.utils.checkpoint import checkpoint
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 8)
                self.norm, self.d, self.act = nn.BatchNorm1d(8), nn.Linear(8, 2), nn.Tanh()
            def forward(self, x):
                x = F.relu(self.norm(self.a(x)))
                x = checkpoint(lambda x: self.b(x).sigmoid(), x, use_reentrant=False)
                return self.d(self.act(self.c(x)) + torch.tanh(100 * self.c(x)))
        net = Net()
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            opt.zero_grad()
            net(torch.randn(16, 3)).square().mean().backward()
            opt.step()
        """)
    )
    stats = [s for s in job.ring.stats if s.name.endswith("()")]
    assert {s.name for s in stats} == {"norm.relu()", "b.sigmoid()", "c.tanh()"}
    assert len(stats) == 9 and all(s.units == 8 and s.count == 128 for s in stats)
    assert all(s.zero > 0 for s in stats if s.name == "norm.relu()")
    assert all(0.5 <= s.min <= s.max <= 1 for s in stats if s.name == "b.sigmoid()")
    assert all(0.9 < s.max <= 1 for s in stats if s.name == "c.tanh()")
    told = [fact for fact in job.ring.of_kind("model") if fact["kind"] == "function"]
    assert {
        fact["name"]: (fact["class"], fact["detail"]["layer"], fact["line"]) for fact in told
    } == {
        "norm.relu()": ("ReLU", "norm", 12),
        "b.sigmoid()": ("Sigmoid", "b", 11),
        "c.tanh()": ("Tanh", "c", 11),
    }
    assert job.ring.of_kind("not_captured") == []


@pytest.mark.parametrize("what", ["never", "elsewhere", "by hand", "evaluation", "late"])
def test_an_optimizer_that_never_steps_is_told(train: Callable[..., Job], what: str) -> None:
    job = train(
        script(f"""
        what = {what!r}
        net = nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), 0.01)
        other = nn.Linear(2, 1)
        opt2 = torch.optim.Adam(other.parameters()) if what == "elsewhere" else None
        if what == "evaluation": net.eval()
        for i in range(40):
            opt.zero_grad()
            (net(torch.randn(4, 2)).mean() + other(torch.randn(4, 2)).mean()).backward()
            if what == "elsewhere": opt2.step()
            if what == "late" and i == 39: opt.step()
            for p in net.parameters():
                if what == "by hand": p.data -= 0.01 * p.grad
        """)
    )
    events = job.ring.of_kind("optimizer_never_steps")
    assert len(events) == (what in ("never", "elsewhere"))
    for event in events:
        assert event["optimizer"] == "SGD" and event["passes"] == 40
        assert event["where"]["line"] == 9


def test_what_is_squashed_before_a_loss_is_told_once_a_line(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        t = torch.tensor([0, 1, 2, 0])
        for i in range(2):
            x = torch.randn(4, 4)
            F.cross_entropy(F.softmax(net(x), 1).view(4, 3), t).backward()
            (F.nll_loss(net(x).softmax(1), t) * 0.5 + net.weight.square().sum()).backward()
            F.binary_cross_entropy_with_logits(torch.sigmoid(net(x))[:, 0], t / 2).backward()
            F.cross_entropy(F.softmax(net(x), 1) / 0.1, t).backward()
            F.cross_entropy(F.log_softmax(net(x), 1), t).backward()
            F.nll_loss(F.log_softmax(net(x), 1), t).backward()
            F.binary_cross_entropy(torch.sigmoid(net(x))[:, 0], t / 2).backward()
            opt.step()
        model = nn.Sequential(nn.Softmax(1), nn.Linear(4, 3))
        opt = torch.optim.SGD(model.parameters(), 0.1)
        F.cross_entropy(model(x).softmax(1), t).backward()
        model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(1))
        opt = torch.optim.SGD(model.parameters(), 0.1)
        nn.CrossEntropyLoss()(model(x), t).backward()
        """)
    )
    told = job.ring.of_kind("squashed_before_loss")
    assert [(e["function"], e["log_missing"]) for e in told] == [
        ("softmax", False),
        ("softmax", True),
        ("sigmoid", False),
        ("softmax", False),
        ("softmax", False),
    ]
    lines = lines_of(job, "squashed_before_loss")
    # Of a module the line that made it, where it is the last one.
    assert [line - lines[0] for line in lines] == [0, 1, 2, 10, 11]


def test_targets_that_are_no_probabilities_are_told(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        sign, smooth = torch.tensor([-1.0, 1.0, 1.0]), torch.tensor([0.0, 1.2, 1.2])
        for i in range(2):
            out = net(torch.randn(3, 4)).squeeze(1)
            F.binary_cross_entropy_with_logits(out, sign).backward(retain_graph=True)
            F.binary_cross_entropy_with_logits(out, smooth).backward(retain_graph=True)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 1 / 0):
                hidden = F.binary_cross_entropy_with_logits(out.detach(), sign)
            F.mse_loss(out, sign).backward()
            opt.step()
        """)
    )
    (event,) = job.ring.of_kind("labels_out_of_range")
    assert (event["low"], event["high"]) == (-1.0, 1.0)
    assert job.ring.of_kind("not_captured") == []


def test_a_model_that_stays_in_eval_mode_is_told(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        def run(net, before, after, load=False):
            opt = torch.optim.SGD(net.parameters(), 0.01)
            if load: net.load_state_dict(net.state_dict())
            before(net)
            for i in range(6):
                opt.zero_grad()
                net(torch.randn(8, 4)).mean().backward()
                opt.step()
                if i == 1: after(net)
        def make(): return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        def norm(): return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        nothing = lambda net: None
        run(make(), nothing, lambda net: net.eval())
        run(norm(), lambda net: net.eval(), nothing)
        run(norm(), lambda net: net.eval(), nothing, load=True)
        run(make(), nothing, lambda net: net[1].eval())
        run(make(), nothing, lambda net: net.eval().train())
        run(nn.Sequential(nn.Linear(4, 1)), nothing, lambda net: net.eval())
        """)
    )
    told = job.ring.of_kind("eval_mode_in_training")
    assert [(e["modules"], e["first_step"]) for e in told] == [(["1"], 2), (["1"], 6)]
    lines = lines_of(job, "eval_mode_in_training")
    assert lines[1] == lines[0] + 1


def test_an_optimizer_of_a_layer_that_was_replaced_is_told(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        def run(replace, head_only):
            net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
            of = net[2] if head_only else net
            opt = torch.optim.SGD(of.parameters(), 0.01)
            for i in range(6):
                if i == 2 and replace: net[2] = nn.Linear(4, 2)
                opt.zero_grad()
                net(torch.randn(8, 4)).mean().backward()
                opt.step()
        run(True, False)
        run(False, True)
        run(False, False)
        """)
    )
    (event,) = job.ring.of_kind("optimizer_misses_parameters")
    assert event["parameters"] == ["2.weight", "2.bias"]
    assert event["first_step"] == 2


def test_positives_that_count_more_are_told_with_the_loss(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        plain, weighted = nn.BCEWithLogitsLoss(), nn.BCEWithLogitsLoss(pos_weight=torch.tensor(9.0))
        for loss in (plain, weighted, plain):
            out = net(torch.randn(3, 4))
            if loss is plain: loss(out, torch.ones(3, 1)).backward()
            if loss is weighted: loss(out, torch.ones(3, 1)).backward()
            opt.step()
        """)
    )
    facts: Dict[str, Any] = {
        f["name"]: f["detail"]["weighted"] for f in job.ring.of_kind("model") if f["kind"] == "loss"
    }
    assert sorted(facts.values()) == [False, True]
