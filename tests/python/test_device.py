"""The logic for numbers on an accelerator, with tensors on the CPU in their place."""

from typing import Any, List, Tuple

import pytest

torch = pytest.importorskip("torch")

from paramedic.adapters.torch import device  # noqa: E402


class FakeProbe:
    def __init__(self) -> None:
        self.scalars: List[Tuple[int, str, float]] = []

    def scalar(self, step: int, name: str, value: float) -> None:
        self.scalars.append((step, name, value))


class FakeSession:
    def __init__(self) -> None:
        self.torch = torch
        self.probe = FakeProbe()
        self.on_fork: List[Any] = []
        self.told: List[str] = []

    def not_captured(self, what: str, why: str) -> None:
        self.told.append(what)


class FakeEvent:
    def __init__(self) -> None:
        self.passed = False

    def query(self) -> bool:
        return self.passed


def test_norms_of_gradients_arrive_as_root_mean_squares() -> None:
    session = FakeSession()
    reader = device.DeviceReader(session)  # type: ignore[arg-type]
    named = [("a", torch.full((4,), 3.0)), ("b", torch.tensor([[6.0, -8.0]]))]
    reader.rms(named, 7, torch.tensor(2.0))
    assert session.probe.scalars == []
    reader.collect()
    assert session.probe.scalars == [
        (7, "gradient_rms/a", pytest.approx(1.5)),
        (7, "gradient_rms/b", pytest.approx(50**0.5 / 2)),
    ]


def test_numbers_wait_for_their_event_and_keep_their_order() -> None:
    session = FakeSession()
    reader = device.DeviceReader(session)  # type: ignore[arg-type]
    event = FakeEvent()
    reader._pending.append((["first"], 1, torch.tensor([1.0]), event))
    reader.scalar("second", 2, torch.tensor(4.0), torch.tensor([2.0]))
    reader.collect()
    assert session.probe.scalars == []
    event.passed = True
    reader.collect()
    assert session.probe.scalars == [(1, "first", 1.0), (2, "second", 2.0)]


def test_a_device_that_is_too_far_behind_is_told() -> None:
    session = FakeSession()
    reader = device.DeviceReader(session)  # type: ignore[arg-type]
    reader._pending.append((["first"], 1, torch.tensor([1.0]), FakeEvent()))
    for step in range(device.MAX_PENDING + 5):
        reader.scalar("x", step, torch.tensor(1.0), None)
    assert len(reader._pending) == device.MAX_PENDING
    assert set(session.told) == {"device numbers"}
