"""What a model is trained and evaluated on: what is told of it, and what is no fault."""

from typing import Any, Callable, Dict, List

import pytest
from conftest import Job
from test_steps import script


def lines_of(job: Job, kind: str) -> List[int]:
    return [int(event["where"]["line"]) for event in job.ring.of_kind(kind)]


EVALUATED = """
    how = {how!r}
    def make():
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    net = make() if how != "plain" else nn.Sequential(nn.Linear(4, 1))
    other = make()
    opt = torch.optim.SGD(net.parameters(), 0.01)
    opt2 = torch.optim.SGD(other.parameters(), 0.01) if how == "game" else None
    test = torch.randn(10, 4)
    def evaluate(data):
        with torch.no_grad():
            return net(data).mean().item()
    @torch.no_grad()
    def decorated(data):
        return net(data).mean().item()
    def epoch():
        if how != "once": net.train()
        for _ in range(4):
            opt.zero_grad()
            loss = net(torch.randn(8, 4)).mean()
            if how == "game": loss = loss + other(torch.randn(8, 4)).mean()
            loss.backward()
            if how == "pseudo": evaluate(torch.randn(8, 4))
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            if how == "game": opt2.step()
    for i in range(4):
        epoch()
        if how == "right": net.eval()
        if how == "on purpose": net.train()
        if how == "final" and i < 3: continue
        if how == "decorated": decorated(test)
        elif how == "samples": [evaluate(test) for _ in range(3)]
        elif how == "moves": [evaluate(torch.randn(1, 4)) for _ in range(3)]
        elif how == "inference":
            with torch.inference_mode(): net(test)
        elif how == "switch":
            with torch.set_grad_enabled(False): net(test)
        elif how != "pseudo": evaluate(test)
"""


@pytest.mark.parametrize(
    "how",
    ["wrong", "once", "decorated", "inference", "switch", "final"]
    + ["right", "plain", "on purpose", "samples", "moves", "game", "pseudo"],
)
def test_a_model_that_is_evaluated_in_training_mode_is_told(
    train: Callable[..., Job], how: str
) -> None:
    job = train(script(EVALUATED.format(how=how)))
    told = job.ring.of_kind("train_mode_in_evaluation")
    assert len(told) == (how in ("wrong", "once", "decorated", "inference", "switch", "final"))
    for event in told:
        assert event["modules"] == ["1"]
        assert event["first_step"] == (16 if how == "final" else 4)
    assert job.ring.of_kind("not_captured") == []


BATCHES = """
    from torch.utils.data import DataLoader, TensorDataset
    how = {how!r}
    torch.manual_seed(1)
    X, y = torch.randn(64, 4), torch.randn(64, 1)
    if how == "alike": X[:] = 1
    net = nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), 0.01)
    loader = DataLoader(TensorDataset(X, y), batch_size=8, shuffle=how == "shuffled")
    def fit(xb, yb):
        opt.zero_grad()
        loss = F.mse_loss(net(xb), yb)
        loss.backward()
        opt.step()
    perm = torch.randperm(64)
    if how in ("loader", "shuffled"):
        for _ in range(40):
            xb, yb = next(iter(loader))
            fit(xb, yb)
    if how in ("stride", "alike", "right"):
        for _ in range(5):
            for i in range(0, len(X), 8):
                at = perm[i : i + 8] if how == "right" else perm[:8]
                fit(X[at], y[at])
    if how == "count":
        for _ in range(5):
            for i in range(len(X) // 8):
                xb = X[:8]
                fit(xb, y[:8])
    if how == "unused":
        x0, y0 = next(iter(loader))
        for _ in range(5):
            for xb, yb in loader:
                fit(x0, y0)
    if how == "seeded":
        for _ in range(40):
            torch.manual_seed(0)
            at = torch.randint(64, (8,))
            fit(X[at], y[at])
    if how == "one batch":
        xb, yb = next(iter(loader))
        for _ in range(40): fit(xb, yb)
    if how == "whole":
        for _ in range(40): fit(X * 1.0, y)
    if how == "whole loader":
        for _ in range(40):
            for xb, yb in DataLoader(TensorDataset(X, y), batch_size=64): fit(xb, yb)
    if how == "fold":
        for fold in range(2):
            for epoch in range(20): fit(X[:32], y[:32])
"""


@pytest.mark.parametrize("how", ["loader", "stride", "count", "unused", "seeded"])
def test_a_batch_that_comes_again_in_each_step_is_told(train: Callable[..., Job], how: str) -> None:
    job = train(script(BATCHES.format(how=how)))
    (event,) = job.ring.of_kind("batch_repeated")
    assert event["rows"] == 8
    assert job.ring.of_kind("not_captured") == []


@pytest.mark.parametrize(
    "how", ["shuffled", "alike", "right", "one batch", "whole", "whole loader", "fold"]
)
def test_to_train_on_all_data_or_on_one_batch_on_purpose_is_no_fault(
    train: Callable[..., Job], how: str
) -> None:
    job = train(script(BATCHES.format(how=how)))
    assert job.ring.of_kind("batch_repeated") == []
    assert job.ring.of_kind("not_captured") == []


LABELS = """
    how, loss = {how!r}, {loss!r}
    torch.manual_seed(1)
    X = torch.randn(64, 4)
    y = X[:, 0] if loss == "square" else torch.randint(0, 2, (64,))
    net = nn.Sequential(nn.Linear(4, 1 if loss != "classes" else 2))
    opt = torch.optim.SGD(net.parameters(), 0.01)
    for epoch in range(6):
        order = torch.randperm(64)
        targets = y[torch.randperm(64)] if how == "permuted" else y
        for i in range(0, 64, 16):
            at = order[i : i + 16]
            xb, yb = X[at], targets[at]
            if how == "noise": yb = yb + torch.randn(16)
            if how == "augmented": xb, yb = xb + torch.randn(16, 4), y[torch.randperm(64)[:16]]
            if how == "few kinds": xb = xb[:, :1].sign().expand(-1, 4)
            if how == "few kinds": yb = y[torch.randperm(64)[:16]]
            out = net(xb)
            if how == "contrast": value = F.cross_entropy(out @ out.T, torch.arange(16))
            elif loss == "classes": value = F.cross_entropy(out, yb)
            elif loss == "binary": value = F.binary_cross_entropy_with_logits(out[:, 0], yb.float())
            else: value = F.mse_loss(out, yb[:, None])
            opt.zero_grad()
            value.backward()
            opt.step()
"""


@pytest.mark.parametrize("loss", ["classes", "binary", "square"])
@pytest.mark.parametrize(
    "how", ["permuted", "right", "noise", "augmented", "contrast", "few kinds"]
)
def test_targets_that_are_put_in_another_order_are_told(
    train: Callable[..., Job], how: str, loss: str
) -> None:
    if how == "noise" and loss != "square":
        pytest.skip("only numbers have noise")
    job = train(script(LABELS.format(how=how, loss=loss)))
    told = job.ring.of_kind("labels_differ")
    assert len(told) == (how == "permuted")
    for event in told:
        assert event["kind"] == loss and event["differ"] > 0.3 * event["seen"]
        assert event["level"] > 0.3
    assert job.ring.of_kind("not_captured") == []


def test_a_loss_over_all_pairs_is_told_with_the_line_that_computes_it(
    train: Callable[..., Job],
) -> None:
    job = train(
        script("""
        net = nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        x, y = torch.randn(6, 4), torch.randn(6)
        for i in range(2):
            loss = F.mse_loss(net(x), y)
            loss.backward()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            F.l1_loss(net(x)[:, 0], y[:, None]).backward()
            (y - net(x)).abs().sum().backward()
            F.mse_loss(net(x), y[:, None]).backward()
            F.mse_loss(net(x)[:, 0], y).backward()
            ((net(x) - torch.randn(6, 3)) ** 2).mean().backward()
            pairs = torch.broadcast_tensors(net(x), y[None])
            F.mse_loss(*pairs, reduction="none").mean().backward()
            out = net(x)
            ((out - out.T) ** 2).mean().backward()
            (out.detach() - out.T).exp().mean().backward()
            opt.step()
        """)
    )
    lines = lines_of(job, "loss_of_all_pairs")
    assert [line - lines[0] for line in lines] == [0, 2, 4, 5]
    assert all(event["rows"] == 6 for event in job.ring.of_kind("loss_of_all_pairs"))
    assert job.ring.of_kind("not_captured") == []


def test_answers_and_the_scale_of_inputs_are_told(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Sequential(nn.Linear(4, 3))
        opt = torch.optim.SGD(net.parameters(), 0.0)
        with torch.no_grad():
            net[0].weight.zero_()
            net[0].bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
        x, y = torch.full((6, 4), 20.0), torch.tensor([0, 1, 1, 2, 1, 0])
        for i in range(14):
            F.cross_entropy(net(x), y).backward()
            opt.step()
        """)
    )
    first, second = job.ring.of_kind("answers")
    assert first["labels"] == [10, 15, 5] and first["answers"] == [0, 30, 0]
    assert second["right"] == [0, 9, 0]
    (scale,) = job.ring.of_kind("input_scale")
    assert abs(scale["rms"] - 20) < 1e-6 and scale["ends"] == [20.0, 20.0]
    facts: Dict[str, Any] = scale["where"]
    assert facts["function"] == "<module>"
