"""A batch that does not fit runs in parts, and the gradients are those of the whole batch."""

import weakref
from typing import Any, Callable, Dict, Iterator, List

import pytest
import torch
from paramedic.recovery import memory, micro_batch, rewind
from paramedic.recovery.crash import Crash, ProjectFrame, Refused
from torch import nn

LOOP = 3


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[rewind.IterationRewinder]:
    """The process's rewinder and splitter, new ones; torch is as it was afterwards."""
    for owner, name in (
        (torch.autograd.graph, "log"),
        (torch.optim.Optimizer, "add_param_group"),
        (torch.optim.Optimizer, "zero_grad"),
        (nn.Module, "zero_grad"),
        (nn.Module, "__call__"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(rewind, "_rewinder", [])
    monkeypatch.setattr(micro_batch, "_splitters", [])
    yield rewind.rewinder()


class Card(nn.Module):
    """Stands for a device that takes so many samples; keeps count of what it saw."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.seen: List[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(x))
        if len(x) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return x * 1.0


def crash_of(error: BaseException) -> Crash:
    return Crash(error, [], "MainThread", 0)


def net(room: int, *inner: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), Card(room), nn.Tanh(), *inner, nn.Linear(16, 5))


def train(model: nn.Module, loss_of: Callable[[Any, Any], Any], steps: int = 6) -> List[Any]:
    """Trains with every repair that is needed; answers weights, losses and what was repaired."""
    torch.manual_seed(1)
    own = rewind.rewinder()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses, repairs = [], []
    for _ in range(steps):
        own.mark(LOOP)
        while True:
            try:
                x, y = torch.randn(24, 6), torch.randint(0, 5, (24,))
                optimizer.zero_grad()
                loss = loss_of(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                break
            except torch.OutOfMemoryError as error:
                crash = crash_of(error)
                options: Dict[str, Any] = {}
                assert micro_batch.split(crash, options) == ("rewind", -1)
                own.put_back(crash, LOOP)
                repairs.append(options["parts"])
    return [list(model.parameters()), losses, repairs]


def contrastive(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Every sample against every other."""
    similar = nn.functional.normalize(output) @ nn.functional.normalize(output).T
    return nn.functional.cross_entropy(similar * 3, torch.arange(len(output)))


LOSSES: Dict[str, Callable[[Any, Any], Any]] = {
    "mean": nn.functional.cross_entropy,
    "sum": lambda o, y: nn.functional.cross_entropy(o, y, reduction="sum") / 24,
    "weighted": lambda o, y: nn.functional.cross_entropy(o, y, torch.arange(1.0, 6.0)),
    "some ignored": lambda o, y: nn.functional.cross_entropy(o, y, ignore_index=2),
    "contrastive": contrastive,
}


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_parts_give_the_gradients_of_the_whole_for_any_loss(loss: str) -> None:
    weights, losses, repairs = train(net(7), LOSSES[loss])
    expected_weights, expected_losses, none = train(net(24), LOSSES[loss])
    assert (repairs, none) == ([2, 4], [])
    assert losses == pytest.approx(expected_losses, abs=1e-6)
    for weight, expected in zip(weights, expected_weights):
        assert torch.allclose(weight, expected, rtol=0, atol=1e-6)


def test_it_stays_in_parts_and_a_small_batch_runs_whole() -> None:
    model = net(12)
    train(model, LOSSES["mean"], steps=3)
    card = model[1]
    assert isinstance(card, Card)
    card.seen.clear()
    model(torch.randn(24, 6)).sum().backward()
    # Each part twice: its activations are computed again in the backward pass.
    assert card.seen == [12, 12, 12, 12]
    card.seen.clear()
    model(torch.randn(9, 6)).sum().backward()
    assert card.seen == [9]


def test_dropout_drops_the_same_when_a_part_is_computed_again() -> None:
    model = net(12, nn.Dropout(0.5))
    train(model, LOSSES["mean"], steps=1)
    x = torch.randn(24, 6)
    model.zero_grad()
    torch.manual_seed(3)
    model(x).pow(2).sum().backward()
    got = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    # THEN it is the gradient of what the forward pass gave: drawn by part, in order.
    model.zero_grad()
    torch.manual_seed(3)
    rewound = [model(part) for part in x.split(12)]
    torch.cat(rewound).pow(2).sum().backward()
    expected = [weight.grad for weight in model.parameters()]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(got, expected) if b is not None)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (nn.BatchNorm1d(16), "BatchNorm1d normalises over the whole batch"),
        (nn.LSTM(16, 16), "looks at the samples of a batch together"),
    ],
)
def test_what_would_change_the_result_is_refused(inner: nn.Module, reason: str) -> None:
    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result = self.inner(x)
            return result[0] if isinstance(result, tuple) else result

    with pytest.raises(Refused, match=reason):
        train(net(7, First()), LOSSES["mean"])


def test_a_loss_inside_the_model_is_refused() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net(7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x).mean()

    with pytest.raises(Refused, match="it is not known how to put the parts together"):
        train(Whole(), lambda output, labels: output)


def test_batches_behind_time_are_split_along_the_second_dimension() -> None:
    class Words(nn.Module):
        def __init__(self, room: int) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inner, self.room = nn.LSTM(6, 8), room
            self.seen: List[int] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.append(x.shape[1])
            if x.shape[1] > self.room:
                raise MemoryError
            return self.inner(x)[0]

    model, whole = Words(4), Words(8)
    x = torch.randn(5, 8, 6)
    with pytest.raises(MemoryError) as caught:
        model(x)
    assert micro_batch.split(crash_of(caught.value)) == ("rewind", -1)
    model.seen.clear()
    result = model(x)
    assert model.seen == [4, 4]
    assert torch.allclose(result, whole(x), atol=1e-6)


def test_there_is_an_end_to_it() -> None:
    with pytest.raises(Refused, match="not even two samples fit"):
        train(net(1), LOSSES["mean"])
    splitter = micro_batch.Splitter(torch)
    model = nn.Linear(6, 2)
    splitter.prepare(model, (torch.randn(8, 6),), {})
    splitter.parts = 8
    with pytest.raises(Refused, match="even a single sample at a time"):
        splitter.more()


def test_memory_for_a_loss_is_had_by_splitting_the_model() -> None:
    failed: List[int] = []

    def loss_of(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if not failed:
            failed.append(1)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return nn.functional.cross_entropy(output, labels)

    assert train(net(24), loss_of)[2] == [2]


def test_memory_that_no_model_is_the_cause_of_is_refused() -> None:
    with pytest.raises(Refused, match="no model was at work"):
        micro_batch.split(crash_of(MemoryError()))
    loader = torch.utils.data.DataLoader([1, 2], collate_fn=_no_memory)
    with pytest.raises(MemoryError) as caught:
        next(iter(loader))
    with pytest.raises(Refused, match="for loading data"):
        micro_batch.split(crash_of(caught.value))


def _no_memory(batch: Any) -> Any:
    raise MemoryError


def test_what_the_traceback_holds_is_let_go() -> None:
    held: List[Any] = []

    class Thing:
        pass

    def library() -> None:
        thing = Thing()
        held.append(weakref.ref(thing))
        raise MemoryError

    try:
        library()
    except MemoryError as error:
        memory.free(crash_of(error))
        assert held[0]() is None


def test_only_graphs_of_the_iteration_are_cut(own: rewind.IterationRewinder) -> None:
    import sys

    weight = torch.ones(3, requires_grad=True)
    state = weight * 2
    own.mark(LOOP)
    loss = (state * weight).sum()
    here = sys._getframe()
    frame = ProjectFrame(here, __file__, "f", here.f_lineno, 0, False)
    memory.cut(Crash(MemoryError(), [frame], "MainThread", 0), own.sequence)
    assert loss.grad_fn is None
    assert state.grad_fn is not None
