"""When the next snapshot may be taken: what snapshots cost, measured in the job itself.

Everything is counted in time of the processor, so that a machine that is shared makes little
difference. A snapshot costs what taking it takes, what the steps after it take longer, in which
each page that is written to for the first time is copied, and what the copy itself takes to begin
and to end. All times are nanoseconds.
"""

import mmap
import os
import resource
import statistics
from time import monotonic_ns, thread_time_ns
from typing import Optional

# When the newest snapshot has become useless the next one is due that much sooner.
HURRY = 10
# Steps that pay for a snapshot, and steps after those that tell what a step takes by itself.
PAYING_STEPS, PLAIN_STEPS = 8, 16
# By how much the steps may show more than the pages that were copied explain: caches are cold
# afterwards. What is beyond is not ours: an evaluation between two steps, for example.
EXCESS_MAX = 4.0
# What is reckoned where the steps tell nothing, because each of them takes a snapshot.
EXCESS_UNSEEN = 1.5


class Life:
    """How long this process has lived, less the time for which others had its processor."""

    def __init__(self, age_ns: int) -> None:
        self._before_ns = age_ns
        self._since_ns = _undisturbed_ns()

    @property
    def lived_ns(self) -> int:
        """Reads a file of the kernel: some microseconds."""
        return self._before_ns + _undisturbed_ns() - self._since_ns

    def go_on(self, lived_ns: int) -> None:
        """In a copy: the time that it stood by is no life."""
        self._before_ns, self._since_ns = lived_ns, _undisturbed_ns()


def _undisturbed_ns() -> int:
    """Where the kernel keeps no count of waits: processor time, which is less than life."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as schedstat:
            return monotonic_ns() - int(schedstat.read().split()[1])
    except (OSError, ValueError, IndexError):
        return thread_time_ns()


class Aftermath:
    """What the steps after a snapshot take longer; made when it has been taken."""

    def __init__(self, cpu_ns: int) -> None:
        self._last_ns = cpu_ns
        self._steps = 0
        self._paying_ns = self._plain_ns = 0

    def step(self, cpu_ns: int) -> Optional[float]:
        """Call after each step with the processor time of the thread; the answer at the last."""
        took_ns, self._last_ns = cpu_ns - self._last_ns, cpu_ns
        self._steps += 1
        if self._steps <= PAYING_STEPS:
            self._paying_ns += took_ns
            return None
        self._plain_ns += took_ns
        if self._steps < PAYING_STEPS + PLAIN_STEPS:
            return None
        return self._paying_ns - self._plain_ns * PAYING_STEPS / PLAIN_STEPS


class SnapshotBudget:
    """The account of one process. Times of its life are those of `Life`."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._spent_ns = 0.0  # in all, but not yet on what follows the newest snapshot
        self._taking_ns = 0.0
        # The next two are those of the snapshot before, until they are known of the newest.
        self._following_ns = 0.0
        self._copy_ns = 0.0
        self._excess_ns: Optional[float] = None
        self._taken_at_ns = 0.0

    def attempted(self, cpu_ns: float) -> None:
        """What an attempt took, whether there is a snapshot now or not."""
        self._spent_ns += cpu_ns

    def taken(self, cpu_ns: float, lived_ns: float) -> None:
        """A snapshot was taken, and that took so long."""
        self._taking_ns, self._taken_at_ns = cpu_ns, lived_ns
        self._following_ns = self._following_ns or cpu_ns
        self._copy_ns = self._copy_ns or cpu_ns
        self._excess_ns = None

    def followed(self, excess_ns: float) -> None:
        """What the steps after the newest snapshot took longer."""
        self._excess_ns = excess_ns

    def replaced(self, pages: int, page_ns: float) -> None:
        """The newest snapshot makes room for another; so many pages were copied for it."""
        least_ns = pages * page_ns
        if self._excess_ns is None:
            self._following_ns = least_ns * EXCESS_UNSEEN
        else:
            self._following_ns = min(max(least_ns, self._excess_ns), least_ns * EXCESS_MAX)
        self._spent_ns += self._following_ns

    def ended(self, cpu_ns: float) -> None:
        """A copy has ended, and took so long itself."""
        self._copy_ns = cpu_ns
        self._spent_ns += cpu_ns

    def due_ns(self, hurry: bool = False) -> float:
        """The time of life at which the next one may be taken.

        Two rules: all that was spent and what the next one costs keep within the share of the whole
        life; and each one keeps within its share of the time since the one before, so that what was
        saved is not spent on several in a row. Whoever is in a hurry borrows from the next one.
        """
        cost_ns = self._taking_ns + self._following_ns + self._copy_ns
        interval_ns = cost_ns / self._share
        # Of the newest and of the one before, which ends when the next one is taken.
        open_ns = self._following_ns + 2 * self._copy_ns
        whole_ns = (self._spent_ns + open_ns + cost_ns) / self._share
        if not hurry:
            return max(whole_ns, self._taken_at_ns + interval_ns)
        sooner_ns = interval_ns / HURRY
        return max(whole_ns - interval_ns + sooner_ns, self._taken_at_ns + sooner_ns)


class Pages:
    """Counts pages that are copied, and measures what one costs: a fault and a copy.

    That differs between machines by a factor of five, so it is measured after each fork, on some
    pages that are kept for it.
    """

    # Somebody else may have the processor meanwhile: the middle of several measurements counts.
    TIMES, PAGES = 9, 8

    def __init__(self) -> None:
        self.page_ns = 0.0
        self._faults = 0
        self._bytes = os.sysconf("SC_PAGE_SIZE")
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, self.TIMES * self.PAGES * self._bytes, flags=private)
        self._write()

    def forked(self) -> None:
        """Call after a fork, once."""
        first, again = self._write(), self._write()
        self.page_ns = max(0.0, first - again) / self.PAGES
        self._faults = _faults()

    def copied_for(self, pid: int) -> int:
        """Pages that were copied since the fork of `pid`, at most.

        Those that the copy has to itself: pages that were written to, but also some that were
        given back since. There cannot be more than there were faults.
        """
        return min(_pages_of_its_own(pid), _faults() - self._faults)

    def _write(self) -> float:
        """To all pages; the nanoseconds for PAGES of them."""
        stretch, took = self.PAGES * self._bytes, []
        for begin in range(0, self.TIMES * stretch, stretch):
            start = monotonic_ns()
            for at in range(begin, begin + stretch, self._bytes):
                self._memory[at] = 1
            took.append(monotonic_ns() - start)
        return statistics.median(took)


def _faults() -> int:
    """Of all threads of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _pages_of_its_own(pid: int) -> int:
    """Pages that a copy does not share any more: those that its owner has written to since."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
            private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    except OSError:
        return 0  # memory ran out, and it had to go
    return private * 1024 // os.sysconf("SC_PAGE_SIZE")
