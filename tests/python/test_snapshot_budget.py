"""Snapshots keep within their share of the time, whatever they cost and whoever else is at work."""

from typing import Iterator, List, Optional

import pytest
from paramedic.recovery.snapshot_budget import (
    PAYING_STEPS,
    PLAIN_STEPS,
    Aftermath,
    Life,
    Pages,
    SnapshotBudget,
)

MS = 1_000_000


class Job:
    """Steps of a job by figures: what they and its snapshots take, in ms of the processor."""

    def __init__(self, share: float, step: Iterator[float], taking: float, copying: float) -> None:
        self.budget = SnapshotBudget(share)
        self.step, self.taking, self.copying = step, taking, copying
        self.ending = 0.5 * taking
        # What the counted pages explain of `copying`.
        self.explained = copying / 1.5
        self.lived = 2000.0
        self.taken: List[float] = []
        self._to_copy: List[float] = []
        self._aftermath: Optional[Aftermath] = None

    def run(self, until: float, hurry: bool = False) -> float:
        """Trains until that time of life; the share that snapshots have taken of it."""
        while self.lived < until:
            self.lived += next(self.step) + (self._to_copy.pop() if self._to_copy else 0.0)
            if self._aftermath is not None:
                excess = self._aftermath.step(int(self.lived * MS))
                if excess is not None:
                    self.budget.followed(excess)
                    self._aftermath = None
            if self.lived * MS >= self.budget.due_ns(hurry):
                self._take()
        return len(self.taken) * (self.taking + self.copying + self.ending) / self.lived

    def _take(self) -> None:
        if self.taken:
            self.budget.replaced(100, self.explained * MS / 100)
            self.budget.ended(self.ending * MS)
        self.lived += self.taking
        self.taken.append(self.lived)
        self.budget.attempted(self.taking * MS)
        self.budget.taken(self.taking * MS, self.lived * MS)
        # Most pages are written to in the first step.
        self._to_copy = [0.1 * self.copying, 0.9 * self.copying]
        self._aftermath = Aftermath(int(self.lived * MS))


def steps(*pattern: float) -> Iterator[float]:
    while True:
        yield from pattern


@pytest.mark.parametrize("share", [0.003, 0.03])
@pytest.mark.parametrize(
    ("step", "taking", "copying"), [(3, 16, 10), (3, 5, 60), (300, 40, 110), (1, 8, 2)]
)
def test_budget_is_used_and_never_passed(
    share: float, step: float, taking: float, copying: float
) -> None:
    job = Job(share, steps(step), taking, copying)
    for number in range(1, 5):
        used = job.run(20 * number * (taking + copying) / share)
        assert used <= share * 1.001
    assert used > 0.85 * share


def test_what_the_pages_do_not_explain_is_seen_in_the_steps() -> None:
    job = Job(0.03, steps(3), taking=10, copying=40)
    job.explained = 15
    assert 0.85 * 0.03 < job.run(120_000) <= 0.03


def test_each_step_with_a_snapshot_of_its_own_keeps_to_the_budget() -> None:
    job = Job(0.03, steps(5000), taking=40, copying=60)
    assert 0.01 < job.run(600_000) <= 0.03
    # Two optimizers that take turns: no step is a measure for the next one.
    job = Job(0.03, steps(4, 20), taking=16, copying=10)
    assert 0.02 < job.run(600_000) <= 0.03


def test_an_evaluation_between_two_steps_is_not_put_on_a_snapshot() -> None:
    job = Job(0.003, steps(*[3] * 199, 2_000), taking=16, copying=10)
    assert 0.6 * 0.003 < job.run(400_000) <= 0.003


def test_what_was_saved_is_not_spent_on_several_in_a_row() -> None:
    # GIVEN a job that had no snapshot for a long time, and one that was very dear
    job = Job(0.03, steps(3), taking=200, copying=10)
    job.run(2010)
    job.taking, job.ending = 16, 8
    job.lived += 600_000
    # WHEN it may take some again
    del job.taken[:]
    job.run(job.lived + 30_000)
    # THEN each is paid for by the time since the one before
    apart = [later - one for one, later in zip(job.taken, job.taken[1:])]
    assert len(apart) > 10
    assert min(apart) > 0.8 * 34 / 0.03


def test_hurry_borrows_from_the_next_snapshot_only() -> None:
    job = Job(0.03, steps(3), taking=16, copying=10)
    job.run(60_000)
    # A job that makes each of its snapshots useless at once has not more of them for that.
    assert job.run(200_000, hurry=True) <= 0.0302
    calm = job.budget.due_ns()
    assert job.budget.due_ns(hurry=True) < calm - 0.8 * 34 * MS / 0.03


def test_pages_that_are_copied_later_than_the_next_steps_count() -> None:
    # A data set of Python's objects is written to, page by page, as an epoch goes through it.
    budget = SnapshotBudget(0.01)
    budget.taken(10 * MS, 0)
    budget.followed(1 * MS)
    budget.replaced(pages=20_000, page_ns=2000)
    budget.attempted(10 * MS)
    budget.taken(10 * MS, 2000 * MS)
    assert budget.due_ns() == (40 + 10 + 40 + 2 * 10 + 60) * MS / 0.01


def test_excess_is_what_the_first_steps_took_more_than_the_later_ones() -> None:
    aftermath, at, answers = Aftermath(1000), 1000, []
    for step in range(PAYING_STEPS + PLAIN_STEPS):
        at += 70 if step == 1 else 9 if step % 2 else 11
        answers.append(aftermath.step(at))
    assert answers == [None] * (PAYING_STEPS + PLAIN_STEPS - 1) + [61.0]


def test_time_for_which_a_copy_stood_by_is_no_life() -> None:
    life = Life(5_000 * MS)
    before = life.lived_ns
    assert before >= 5_000 * MS
    life.go_on(before - 1_000 * MS)
    assert before - 1_000 * MS <= life.lived_ns


def test_a_page_has_a_price_and_pages_of_a_process_that_is_gone_are_none() -> None:
    pages = Pages()
    pages.forked()
    assert pages.page_ns >= 0
    assert pages.copied_for(2**22 + 1) == 0
