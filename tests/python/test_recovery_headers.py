"""Crashes in a loop's header: what the loop draws from must go on, and never end silently early."""

from pathlib import Path
from typing import Any, Iterator, List

import pytest
from crashing import run
from paramedic.recovery.crash import Repair

# Nothing in this file is transformed: it stands for a library.


class Source:
    """An iterator that fails once, at its third item, and goes on with the next."""

    def __init__(self) -> None:
        self.n = 0

    def __iter__(self) -> "Source":
        return self

    def __next__(self) -> int:
        self.n += 1
        if self.n == 3:
            raise OSError("third")
        if self.n > 5:
            raise StopIteration
        return self.n


class Bar:
    """A progress bar in the manner of tqdm: its generator closes it at the end."""

    def __init__(self, iterable: Any) -> None:
        self.iterable, self.n, self.total, self.disable = iterable, 0, 5, False
        self.shown: List[int] = []

    def update(self, n: int) -> None:
        self.n += n
        self.shown.append(self.n)

    def close(self) -> None:
        self.disable = True

    def __iter__(self) -> Iterator[Any]:
        try:
            for item in self.iterable:
                yield item
                self.update(1)
        finally:
            self.close()


def through(iterable: Any) -> Iterator[Any]:
    for item in iterable:  # noqa: UP028
        yield item


def dies() -> Iterator[int]:
    yield 1
    raise OSError("no way on")


LOOPS = {
    "an_iterator": "items()",
    "enumerate": "(x for _, x in [(0, 0)][:0]) if False else map(int, items())",
    "a_generator_of_a_library": "through(items())",
    "two_of_them": "through(through(items()))",
    "a_progress_bar": "bar(items())",
    "a_generator_expression": "(x for x in items())",
    "a_progress_bar_over_a_map": "bar(map(int, items()))",
}


@pytest.mark.parametrize("kind", ["retry", "skip"])
@pytest.mark.parametrize("name", LOOPS)
def test_the_loop_goes_on_with_the_next_item(tmp_path: Path, name: str, kind: str) -> None:
    program = f"""
    def f():
        log = []
        for x in {LOOPS[name]}:
            log.append(x)
        else:
            log.append("else")
        return log
    result = f()
    log = []
    for i, x in enumerate({LOOPS[name]}):
        log.append((i, x))
    """
    spaces, decider = run(
        tmp_path,
        program,
        lambda crash: Repair(kind),
        items=Source,
        through=through,
        bar=Bar,
    )
    assert spaces["result"] == [1, 2, 4, 5, "else"], decider.reasons
    assert spaces["log"] == [(0, 1), (1, 2), (2, 4), (3, 5)]
    assert all(crash.frames[-1].is_loop_header for crash in decider.crashes)


def test_a_progress_bar_goes_on_counting(tmp_path: Path) -> None:
    bar = Bar(Source())
    program = """
    for x in bar:
        pass
    """
    run(tmp_path, program, lambda crash: Repair("retry"), bar=bar)
    assert bar.shown == [1, 2, 3, 4] and bar.disable


def test_an_ended_generator_without_a_source_is_refused(tmp_path: Path) -> None:
    answers = [Repair("retry"), Repair("skip"), None]
    program = """
    for x in dies():
        pass
    """
    with pytest.raises(OSError, match="no way on"):
        run(tmp_path, program, answers, dies=dies)
    _, decider = run(tmp_path, "def f():\n    for x in d(): pass\n", [], d=dies)
    assert not decider.crashes


def test_a_crash_in_a_callee_of_the_header_is_skipped_there(tmp_path: Path) -> None:
    """A data set of the project, read by a loader that is not."""
    program = """
    class Data:
        def __getitem__(self, i):
            if i == 2:
                raise OSError(i)
            return i
    def f():
        return [x for x in [0]] and loop()
    def loop():
        log = []
        for i, x in enumerate(bar(loader(Data()))):
            log.append(x)
        return log
    result = f()
    """

    class Loader:
        def __init__(self, data: Any) -> None:
            self.data, self.i = data, -1

        def __iter__(self) -> "Loader":
            return self

        def __next__(self) -> Any:
            self.i += 1
            if self.i > 4:
                raise StopIteration
            return self.data[self.i]

    spaces, decider = run(tmp_path, program, lambda crash: Repair("skip"), loader=Loader, bar=Bar)
    assert spaces["result"] == [0, 1, 3, 4]
    assert decider.where == ["Data.__getitem__:5"]


def test_a_target_that_does_not_fit_goes_on_with_the_next_item(tmp_path: Path) -> None:
    program = """
    log = []
    for a, b in [(1, 2), (3,), (4, 5)]:
        log.append(a + b)
    """
    spaces, _ = run(tmp_path, program, lambda crash: Repair("skip"))
    assert spaces["log"] == [3, 9]


def test_an_iterator_is_freed_when_its_loop_is_left(tmp_path: Path) -> None:
    program = """
    log = []
    def items(name):
        try:
            yield 1
            yield 2
        finally:
            log.append("closed " + name)
    def f():
        for x in items("break"):
            break
        log.append("after break")
        try:
            for x in items("raise"):
                raise KeyError
        except KeyError:
            log.append("handler")
        for x in items("return"):
            return
    f()
    log.append("after f")
    for x in items("module"):
        break
    log.append("end")
    """
    plain, _ = run(tmp_path, program, transform=False)
    spaces, _ = run(tmp_path, program)
    assert spaces["log"] == plain["log"]
