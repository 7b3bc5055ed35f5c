"""An iteration that crashed and is run again leaves the very bits of an undisturbed run."""

import contextlib
import gc
import random
import sys
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy
import pytest
import torch
from paramedic.recovery import pace, rewind
from paramedic.recovery.crash import Crash, Refused
from torch import nn

STEPS = 12
LOOP = 7


class Once(Exception):
    """Raised once, in the middle of something."""


def crash_of(error: BaseException) -> Crash:
    return Crash(error, [], "MainThread", 0)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[rewind.IterationRewinder]:
    """A rewinder whose hooks are taken out of torch again; all copies fit its budget."""
    monkeypatch.setenv("PARAMEDIC_SNAPSHOT_BUDGET", "1000000")
    for owner, name in (
        (torch.autograd.graph, "log"),
        (torch.optim.Optimizer, "add_param_group"),
        (torch.optim.Optimizer, "zero_grad"),
        (nn.Module, "zero_grad"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    yield rewind.IterationRewinder()
    optimizers: Any = sys.modules["torch.optim.optimizer"]
    optimizers._global_optimizer_pre_hooks.pop("paramedic.rewind", None)


class Net(nn.Module):
    """Dropout, running statistics, a power iteration, a counter bound anew, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 16))
        self.norm = nn.BatchNorm1d(16)
        self.inner = nn.Linear(16, 16, bias=False)
        self.tied = nn.Linear(16, 16, bias=False)
        self.tied.weight = self.inner.weight
        self.last = nn.Linear(16, 4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        h = nn.functional.dropout(self.norm(self.first(x)), 0.3, self.training)
        h = Faulty.apply(torch.relu(self.tied(self.inner(h) * self.mask)))
        return self.last(h)


class Faulty(torch.autograd.Function):
    """Raises once in the backward pass, when a part of the gradients is there already."""

    armed = False

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        if Faulty.armed:
            Faulty.armed = False
            raise Once("backward")
        return gradient


class HalfStep(torch.optim.SGD):
    """Raises once, when a part of the weights is updated already."""

    armed = False

    def step(self, closure: Any = None) -> Any:
        result = super().step(closure)
        if HalfStep.armed:
            HalfStep.armed = False
            raise Once("step")
        return result


OPTIMIZERS: Dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "half step": lambda p: HalfStep(p, 0.05, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 0.01),
    "foreach": lambda p: torch.optim.AdamW(p, 0.01, foreach=True, amsgrad=True),
    "LBFGS": lambda p: torch.optim.LBFGS(p, 0.5, max_iter=3, history_size=2),
}


class Run:
    """One training; crashes where it is told to, and rewinds."""

    def __init__(
        self,
        own: Optional[rewind.IterationRewinder],
        optimizer: str = "momentum",
        every: int = 1,
        to_none: bool = True,
        amp: bool = False,
    ) -> None:
        torch.manual_seed(1)
        random.seed(1)
        numpy.random.seed(1)
        self.own = own
        self.every, self.to_none, self.amp = every, to_none, amp
        self.net = Net()
        self.optimizer = OPTIMIZERS[optimizer](self.net.parameters())
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3, enabled=amp)
        self.batches = torch.randn(STEPS, 16, 8)
        self.labels = torch.randint(0, 4, (STEPS, 16))
        self.crashes = 0

    def go(self, where: str = "", at: int = -1) -> List[Any]:
        generator, numbers = torch.Generator().manual_seed(5), numpy.random.default_rng(5)
        for index in range(STEPS):
            if self.own is not None:
                self.own.mark(LOOP)
            todo = where if index == at else ""
            while True:
                try:
                    self.iteration(index, todo, generator, numbers)
                    break
                except Once as error:
                    self.crashes += 1
                    assert self.own is not None
                    self.own.put_back(crash_of(error), LOOP)
                    todo = ""
        drawn = [torch.rand(2), torch.rand(2, generator=generator), numbers.random()]
        drawn += [random.random(), random.gauss(0, 1), numpy.random.rand(), numpy.random.randn()]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        state = [v for s in self.optimizer.state.values() for v in s.values()]
        scale = [self.scaler.state_dict()]
        return [list(self.net.state_dict().values()), drawn, rates, state, scale]

    def iteration(self, index: int, todo: str, generator: Any, numbers: Any) -> None:
        x = self.batches[index] + 0.01 * torch.randn(16, 8, generator=generator)
        x = x + 0.01 * (random.gauss(0, 1) + numpy.random.randn() + numbers.random())

        def closure() -> torch.Tensor:
            if index % self.every == 0:
                self.optimizer.zero_grad(set_to_none=self.to_none)
            with torch.autocast("cpu", torch.bfloat16, enabled=self.amp):
                output = self.net(x)
                if todo == "forward":
                    raise Once("forward")
                loss = nn.functional.cross_entropy(output.float(), self.labels[index])
            Faulty.armed = todo == "backward"
            self.scaler.scale(loss).backward()
            return loss

        if isinstance(self.optimizer, torch.optim.LBFGS):
            self.optimizer.step(closure)
        else:
            closure()
            if index % self.every == self.every - 1:
                HalfStep.armed = todo == "step"
                self.scaler.step(self.optimizer)
                self.scaler.update()
        self.schedule.step()
        if todo == "end":
            raise Once("end")


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    return bool(first == second)


# Of these only the half step raises half-way.
PLACES = [(name, place) for name in OPTIMIZERS for place in ("forward", "backward", "end")]


@pytest.mark.parametrize("at", [0, 1, 7])
@pytest.mark.parametrize(("optimizer", "where"), [*PLACES, ("half step", "step")])
def test_an_iteration_run_again_changes_nothing(
    own: rewind.IterationRewinder, optimizer: str, where: str, at: int
) -> None:
    expected = Run(None, optimizer).go()
    run = Run(own, optimizer)
    assert same(run.go(where, at), expected)
    assert run.crashes == 1


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("where", ["forward", "backward", "step", "end"])
@pytest.mark.parametrize("at", [3, 4, 5])
def test_gradients_that_accumulate_are_as_they_were(
    own: rewind.IterationRewinder, where: str, at: int, to_none: bool
) -> None:
    expected = Run(None, "half step", every=3, to_none=to_none).go()
    run = Run(own, "half step", every=3, to_none=to_none)
    assert same(run.go(where, at), expected)
    assert run.crashes == (1 if where != "step" or at == 5 else 0)


@pytest.mark.parametrize("where", ["forward", "backward", "step", "end"])
def test_mixed_precision_keeps_its_scale(own: rewind.IterationRewinder, where: str) -> None:
    expected = Run(None, "half step", amp=True).go()
    assert same(Run(own, "half step", amp=True).go(where, 5), expected)


def test_weights_updated_by_hand_are_put_back(own: rewind.IterationRewinder) -> None:
    def train(fail_at: int) -> List[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        average = nn.Linear(4, 2).requires_grad_(False)
        for index in range(8):
            own.mark(LOOP)
            for attempt in range(2):
                loss = net(torch.randn(4, 4)).pow(2).mean()
                loss.backward()
                for weight in net.parameters():
                    weight.data.sub_(0.1 * weight.grad)
                    if index == fail_at and attempt == 0:
                        own.put_back(crash_of(Once()), LOOP)
                        break
                    weight.grad = None
                else:
                    for mean, weight in zip(average.parameters(), net.parameters()):
                        mean.data.lerp_(weight.data, 0.5)
                    break
        return [*net.parameters(), *average.parameters()]

    assert same(train(5), train(-1))


def test_state_that_a_first_step_made_is_gone_again(own: rewind.IterationRewinder) -> None:
    net = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters())
    before = [weight.clone() for weight in net.parameters()]
    own.mark(LOOP)
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    assert optimizer.state
    own.put_back(crash_of(Once()), LOOP)
    assert not optimizer.state
    assert same(list(net.parameters()), before)
    assert all(weight.grad is None for weight in net.parameters())


def test_what_could_not_be_exact_is_refused_and_nothing_is_changed(
    own: rewind.IterationRewinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace.Allowance, "grants", lambda *args: False)
    net = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters())

    def iteration() -> None:
        own.mark(LOOP)
        net(torch.ones(1, 4)).sum().backward()

    # GIVEN gradients of two iterations WHEN the second is put back THEN the first's are not known
    iteration()
    iteration()
    gradient = net.weight.grad.clone()
    with pytest.raises(Refused, match="gradients had accumulated over earlier iterations"):
        own.put_back(crash_of(Once()), LOOP)
    assert same(net.weight.grad, gradient)
    # GIVEN a step WHEN there is no copy from before it THEN the weights are not known
    optimizer.zero_grad()
    iteration()
    optimizer.step()
    weights = [weight.clone() for weight in net.parameters()]
    with pytest.raises(Refused, match="2 of 2 weights and states of Adam were changed"):
        own.put_back(crash_of(Once()), LOOP)
    assert same(list(net.parameters()), weights)
    # GIVEN a crash before the step WHEN weights are not copied THEN they need not be
    optimizer.zero_grad()
    iteration()
    own.put_back(crash_of(Once()), LOOP)
    assert net.weight.grad is None


class Plain:
    """A training without anything that is in need of copies, crashing where it is told to."""

    def __init__(self, own: rewind.IterationRewinder) -> None:
        torch.manual_seed(3)
        self.own = own
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 2))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 0.01)
        self.changes = 0
        own._gate.hold("on_change", self._counted)

    def _counted(self) -> None:
        self.changes += 1
        self.own._on_change()

    def iteration(self, where: str = "") -> None:
        loss = self.net(torch.randn(5, 6)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        if where == "by hand":
            with torch.no_grad():
                self.net[0].weight.mul_(1.0)
        if where in ("backward", "by hand"):
            raise Once(where)
        self.optimizer.step()
        if where:
            raise Once(where)

    def go(self, start: int, end: int, where: str = "") -> List[torch.Tensor]:
        for index in range(start, end):
            self.own.mark(LOOP)
            try:
                self.iteration(where if index == end - 1 else "")
            except Once as error:
                self.own.put_back(crash_of(error), LOOP)
                self.iteration()
        return [parameter.clone() for parameter in self.net.parameters()]


def test_what_repeats_itself_is_followed_without_a_look(
    own: rewind.IterationRewinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace.Allowance, "grants", lambda *args: False)
    own._rollback.next_mark = 10**9
    plain = Plain(own)
    expected = plain.go(0, 60)
    # GIVEN that copies are too dear WHEN a training goes on THEN it is looked at ever more rarely
    assert plain.changes < 12
    # WHEN it crashes in between, before a step, THEN it is known that no weight has changed
    again = Plain(own)
    again.go(0, 30)
    before = again.changes
    again.go(30, 45, "backward")
    assert again.changes == before
    assert same(again.go(45, 60), expected)


@pytest.mark.parametrize("where", ["step", "by hand"])
def test_a_change_that_was_only_followed_is_refused(
    own: rewind.IterationRewinder, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace.Allowance, "grants", lambda *args: False)
    plain = Plain(own)
    with pytest.raises(Refused, match=r"(1|16) of 16 weights and states of AdamW were changed"):
        plain.go(0, 15, where)


def test_gradients_that_nobody_cleared_are_seen(
    own: rewind.IterationRewinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace.Allowance, "grants", lambda *args: False)
    plain = Plain(own)
    plain.go(0, 20)
    # GIVEN an iteration that accumulates, after many that did not
    own.mark(LOOP)
    plain.net(torch.ones(1, 6)).sum().backward()
    with pytest.raises(Refused, match="gradients had accumulated over earlier iterations"):
        own.put_back(crash_of(Once()), LOOP)


@contextlib.contextmanager
def one_rank(folder: Path) -> Iterator[None]:
    """A group of one. What a backward pass exchanged is let go of by a thread of the group, which
    needs Python for it; the end of the group waits for that thread and keeps Python (torch 2.13).
    Behind a barrier it has been let go of."""
    where = f"file://{folder}/rendezvous"
    torch.distributed.init_process_group("gloo", init_method=where, rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def test_a_backward_pass_that_other_ranks_wait_for_is_refused(
    own: rewind.IterationRewinder, tmp_path: Path
) -> None:
    with one_rank(tmp_path):
        net = nn.parallel.DistributedDataParallel(Net())
        own.mark(LOOP)
        net(torch.randn(4, 8)).sum().backward()
        own.put_back(crash_of(Once()), LOOP)  # it was finished
        own.mark(LOOP)
        Faulty.armed = True
        with pytest.raises(Once):
            net(torch.randn(4, 8)).sum().backward()
        with pytest.raises(Refused, match="the other ranks wait for the rest"):
            own.put_back(crash_of(Once()), LOOP)


def test_what_other_ranks_have_gone_on_from_is_refused(
    own: rewind.IterationRewinder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with one_rank(tmp_path):
        net = nn.parallel.DistributedDataParallel(Net())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        # GIVEN gradients that stayed here WHEN it is undone THEN nobody is the worse for it
        own.mark(LOOP)
        with net.no_sync():
            net(torch.randn(4, 8)).sum().backward()
            own.put_back(crash_of(Once()), LOOP)
        # GIVEN gradients that were reduced, or a step that all ranks made
        for steps in (False, True):
            own.mark(LOOP)
            optimizer.zero_grad()
            net(torch.randn(4, 8)).sum().backward()
            if steps:
                optimizer.step()
            before = [weight.clone() for weight in net.parameters()]
            # WHEN one of them would undo it THEN it is refused, and nothing is changed
            with pytest.raises(Refused, match="its weights would part from theirs"):
                own.put_back(crash_of(Once()), LOOP)
            with pytest.raises(Refused, match="its weights would part from theirs"):
                own.roll_back(crash_of(Once()), LOOP)
            assert same(list(net.parameters()), before)


def test_a_rollback_finds_weights_that_are_finite(
    own: rewind.IterationRewinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.5)

    def iteration(x: torch.Tensor) -> None:
        own.mark(LOOP)
        optimizer.zero_grad()
        net(x + 0 * torch.rand(1)).sum().backward()
        optimizer.step()

    def is_sound() -> bool:
        state = [v for s in optimizer.state.values() for v in s.values()]
        return all(bool(t.isfinite().all()) for t in [*net.state_dict().values(), *state])

    bad = torch.full((8, 4), float("nan"))
    for _ in range(4):
        iteration(torch.randn(8, 4))
    # GIVEN one bad iteration WHEN it is known as it began THEN that is it
    iteration(bad)
    assert not is_sound()
    used_up = torch.get_rng_state()
    assert own.roll_back(crash_of(Once()), LOOP) == "weights as at the start of the iteration"
    assert is_sound()
    # and the same random numbers do not make the same bad data again
    assert torch.equal(torch.get_rng_state(), used_up)
    # GIVEN two WHEN the second began it was too late THEN an older copy is taken
    iteration(bad)
    iteration(bad)
    assert own.roll_back(crash_of(Once()), LOOP, 0.5) == "weights as 5 iterations ago"
    assert is_sound()
    assert optimizer.param_groups[0]["lr"] == 0.25
    # GIVEN no copies at each iteration WHEN one is bad THEN it is the older copy as well
    monkeypatch.setattr(pace.Allowance, "grants", lambda *args: False)
    iteration(torch.randn(8, 4))
    iteration(bad)
    assert own.roll_back(crash_of(Once()), LOOP).endswith("iterations ago")
    assert is_sound()


def test_another_loop_in_between_is_refused(own: rewind.IterationRewinder) -> None:
    with pytest.raises(Refused, match="another loop"):
        own.put_back(crash_of(Once()), LOOP)
    own.mark(LOOP)
    own.mark(LOOP + 1)
    with pytest.raises(Refused, match="another loop"):
        own.put_back(crash_of(Once()), LOOP)


def test_an_error_of_our_own_is_the_reason_given(own: rewind.IterationRewinder) -> None:
    own.mark(LOOP)
    own._buffers = None  # type: ignore[assignment]
    own.mark(LOOP + 1)
    with pytest.raises(Refused, match="AttributeError"):
        own.put_back(crash_of(Once()), LOOP + 1)


def test_backward_and_step_need_a_rewind_and_a_forward_pass_does_not(
    own: rewind.IterationRewinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.mark(LOOP)
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    monkeypatch.setattr(sys.modules["torch.optim.sgd"], "sgd", lambda *args, **kwargs: 1 // 0)
    loss = net(torch.ones(1, 4)).sum()
    loss.backward()

    def needed(function: Callable[[], Any]) -> bool:
        with pytest.raises(Exception) as caught:  # noqa: B017, PT011
            function()
        return own.needs_rewind(crash_of(caught.value))

    assert needed(loss.backward)
    assert needed(lambda: torch.autograd.grad(loss, net.weight))
    assert needed(optimizer.step)
    assert not needed(lambda: net(torch.ones(1, 5)))


def test_a_model_that_dies_meanwhile_takes_nothing_with_it(
    own: rewind.IterationRewinder,
) -> None:
    others = [nn.BatchNorm1d(3) for _ in range(2)]
    net = nn.BatchNorm1d(4)
    own.mark(LOOP)
    before = [buffer.clone() for buffer in net.buffers()]
    net(torch.randn(8, 4))
    others.pop()
    gc.collect()
    assert not same(list(net.buffers()), before)
    own.put_back(crash_of(Once()), LOOP)
    assert same(list(net.buffers()), before)


def test_nothing_of_a_training_that_is_over_is_held(own: rewind.IterationRewinder) -> None:
    def train() -> List[Any]:
        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        average = torch.optim.swa_utils.AveragedModel(net)
        for _ in range(5):
            own.mark(LOOP)
            loss = net(torch.randn(4, 8)).sum()
            loss.backward()
            optimizer.step()
            average.update_parameters(net)
        things = [net, optimizer, average, net.last.weight, net.last.weight.grad, loss]
        return [weakref.ref(thing) for thing in things]

    references = train()
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
