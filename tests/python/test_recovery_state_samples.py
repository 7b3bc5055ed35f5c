"""After a crash of a DataLoader no batch is lost, repeated or out of order."""

import os
import random
import signal
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest
import torch
from paramedic.recovery import samples
from paramedic.recovery.crash import Crash, Refused
from torch.utils.data import DataLoader, Dataset, IterableDataset

SIZE = 24


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loaders are watched; nothing is known to be bad, and torch is as it was afterwards."""
    base = torch.utils.data.dataloader._BaseDataLoaderIter
    monkeypatch.setattr(base, "_next_index", base._next_index)
    monkeypatch.setattr(samples, "_bad", {})
    samples.install()


class Numbers(Dataset):  # type: ignore[type-arg]
    """The numbers from 0; does something once, or ever again, at one of them."""

    def __init__(
        self, folder: Path, at: int = -1, how: str = "raise", always: bool = False
    ) -> None:
        self.flag, self.at, self.how, self.always = folder / "done", at, how, always

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.at and (self.always or not self.flag.exists()):
            self.flag.touch()
            if self.how == "raise":
                raise OSError(5, "Input/output error")
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            return torch.zeros(2)  # of another shape than its neighbours
        return torch.tensor(float(index))


class Stream(IterableDataset):  # type: ignore[type-arg]
    """An iterator of its own class: it survives an exception."""

    def __init__(self, at: int = -1) -> None:
        self.next, self.at = 0, at

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> float:
        self.next += 1
        if self.next - 1 == self.at:
            raise ValueError("corrupt record")
        if self.next > SIZE:
            raise StopIteration
        return float(self.next - 1)


def run(
    loader: Any, kind: str = "retry", options: Optional[Dict[str, Any]] = None, epochs: int = 1
) -> Tuple[List[List[float]], int]:
    """All batches, and how many crashes were repaired on the way."""
    batches, crashes = [], 0
    for _ in range(epochs):
        iterator = iter(loader)
        while True:
            try:
                batches.append([float(number) for number in next(iterator).reshape(-1)])
            except StopIteration:
                break
            except Exception as error:
                crashes += 1
                assert crashes < 10
                assert samples.prepare(Crash(error, [], "MainThread", 0), kind, options)
    return batches, crashes


def loader_of(dataset: Any, workers: int, **more: Any) -> Any:
    generator = torch.Generator().manual_seed(3)
    more.setdefault("batch_size", 4)
    if not isinstance(dataset, IterableDataset) and "batch_sampler" not in more:
        more.setdefault("shuffle", True)
    if "batch_sampler" in more:
        del more["batch_size"]
    return DataLoader(dataset, num_workers=workers, generator=generator, **more)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["retry", "edit"])
def test_the_same_batch_comes_again(tmp_path: Path, workers: int, kind: str) -> None:
    expected, _ = run(loader_of(Numbers(tmp_path), workers), epochs=2)
    got, crashes = run(loader_of(Numbers(tmp_path, 13), workers), kind, epochs=2)
    assert (got, crashes) == (expected, 1)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_whole_batch_is_left_out_when_asked_for(tmp_path: Path, workers: int) -> None:
    expected, _ = run(loader_of(Numbers(tmp_path), workers))
    got, crashes = run(loader_of(Numbers(tmp_path, 13, always=True), workers), "skip")
    assert got == [batch for batch in expected if 13 not in batch]
    assert crashes == 1


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", ["raise", "shape"])
def test_a_bad_sample_alone_is_left_out_and_not_asked_for_again(
    tmp_path: Path, workers: int, how: str
) -> None:
    expected, _ = run(loader_of(Numbers(tmp_path), workers), epochs=2)
    options: Dict[str, Any] = {"sample": True, "max_share": 0.01}
    dataset = Numbers(tmp_path, 13, how, always=True)
    got, crashes = run(loader_of(dataset, workers), "skip", options, epochs=2)
    assert got == [[number for number in batch if number != 13] for batch in expected]
    assert options["samples"] == ["13"]
    # Batches under way to workers may meet it once more before it is known to all.
    assert crashes == 1


def test_a_data_set_without_a_single_bad_sample_left_out_ends_at_the_share(tmp_path: Path) -> None:
    class Odd(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            if index % 2:
                raise OSError("bad")
            return super().__getitem__(index)

    with pytest.raises(Refused, match="2 of 24 samples cannot be used, more than the share of 0.0"):
        run(loader_of(Odd(tmp_path), 0), "skip", {"sample": True, "max_share": 0.05})


@pytest.mark.parametrize("persistent", [False, True])
def test_new_workers_take_the_place_of_a_killed_one(tmp_path: Path, persistent: bool) -> None:
    more = {"persistent_workers": persistent}
    expected, _ = run(loader_of(Numbers(tmp_path), 2, **more), epochs=3)
    got, crashes = run(loader_of(Numbers(tmp_path, 13, "kill"), 2, **more), epochs=3)
    assert got == expected
    assert crashes >= 1


def test_samplers_of_the_job_keep_their_place(tmp_path: Path) -> None:
    batches = [[23, 1], [13], [5, 6, 7], [0, 2], [9, 10]]
    got, crashes = run(loader_of(Numbers(tmp_path, 13), 2, batch_sampler=batches))
    assert (got, crashes) == ([[float(number) for number in batch] for batch in batches], 1)


@pytest.mark.parametrize("workers", [0, 2])
def test_without_batches_a_sample_is_a_batch(tmp_path: Path, workers: int) -> None:
    dataset = Numbers(tmp_path, 13, always=True)
    loader = loader_of(dataset, workers, batch_size=None, shuffle=False)
    got, _ = run(loader, "skip", {"sample": True})
    assert got == [[float(number)] for number in range(SIZE) if number != 13]


@pytest.mark.parametrize("kind", ["retry", "skip"])
def test_a_stream_loses_the_bad_record_only(kind: str) -> None:
    got, crashes = run(loader_of(Stream(13), 0), kind)
    numbers = [number for batch in got for number in batch]
    assert numbers == [number for number in range(SIZE) if number != 13]
    assert (len(got), crashes) == (6, 1)


def test_a_stream_that_ended_with_the_exception_is_no_early_end_of_the_epoch() -> None:
    class Generated(IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[int]:
            yield from range(5)
            raise ValueError("corrupt record")

    for workers in (0, 1):
        with pytest.raises(Refused, match="would be missing silently"):
            run(loader_of(Generated(), workers), "skip")


def test_random_numbers_of_the_job_are_not_used_up(tmp_path: Path) -> None:
    torch.manual_seed(5)
    random.seed(5)
    expected = (torch.rand(1).item(), random.random())
    torch.manual_seed(5)
    random.seed(5)
    iterator = iter(DataLoader(Numbers(tmp_path, 1), batch_size=4, num_workers=2))
    torch.manual_seed(5)
    with pytest.raises(OSError, match="Input/output error") as caught:
        next(iterator)
    samples.prepare(Crash(caught.value, [], "MainThread", 0), "retry")
    assert next(iterator).tolist() == [0, 1, 2, 3]
    assert (torch.rand(1).item(), random.random()) == expected


def test_a_repair_that_was_refused_after_all_leaves_nothing_behind(tmp_path: Path) -> None:
    iterator = iter(loader_of(Numbers(tmp_path, 1), 0, shuffle=False))
    with pytest.raises(OSError, match="Input/output error") as caught:
        next(iterator)
    crash = Crash(caught.value, [], "MainThread", 0)
    for kind in ("retry", "retry", "skip"):
        samples.prepare(crash, kind)
    assert next(iterator).tolist() == [4, 5, 6, 7]


def test_a_crash_elsewhere_is_none_of_its_business() -> None:
    assert samples.prepare(Crash(ValueError(), [], "MainThread", 0), "retry") is None
