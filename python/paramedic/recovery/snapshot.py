"""Snapshots of a whole process: a copy made by fork that stands by, frozen, and goes on when the
process dies of a signal (docs/design/0011-snapshots.md).

The copy holds everything there was: weights, optimizer state, random states, generators, frames in
the middle of their loops. So nothing has to be found, registered or loaded, and what goes on is the
same to the last bit. `forkable` says when a copy could not go on; `effects` takes back what was
done to files since; the supervisor drops the output that comes a second time.

A snapshot is taken after a step of an optimizer, as often as its cost allows.
"""

import atexit
import os
import random
import select
import signal
import sys
import threading
import time
import warnings
from _thread import get_ident
from time import monotonic_ns, thread_time_ns
from typing import Any, List, Optional

from paramedic import recovery
from paramedic._probe import rank_from_env
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.recovery import effects, forkable
from paramedic.recovery.pace import budget_share
from paramedic.recovery.pages import UNKNOWN, OutputPage, Slot, SnapshotPage
from paramedic.recovery.snapshot_budget import Aftermath, Life, Pages, SnapshotBudget

# Something in the way may go away: workers of a loader end with their epoch.
RETRY_NS = 1_000_000_000
# A reason is told when it has stood in the way so often.
FAILURES_TOLD = 3
ORDER_POLL_S = 0.005
NEVER_S = 3600.0
STANDBY_NAME = "paramedic-stand"  # at most 15 bytes; process_tree.cc knows it


def install(session: Any) -> "Optional[Snapshots]":
    """Takes snapshots of this process from its first step on, if the run has restarts."""
    restarts, budget = _restarts(), budget_share()
    if restarts <= 0 or budget <= 0 or not hasattr(os, "pidfd_open"):
        return None
    # Only the command itself can go on: whoever started another process waits for that one alone.
    if get_ident() != _main_thread() or os.getppid() != _supervisor():
        return None
    snapshots = Snapshots(session, budget)
    snapshots.watch()
    return snapshots


def _restarts() -> int:
    try:
        return int(os.environ.get("PARAMEDIC_RESTARTS", "0"))
    except ValueError:
        return 0


def _supervisor() -> int:
    """The number of the process that started the job."""
    try:
        return int(os.environ.get("PARAMEDIC_SUPERVISOR", "0"))
    except ValueError:
        return 0


class Snapshots:
    """Of the process that trains."""

    def __init__(self, session: Any, budget: float) -> None:
        self._session = session
        self._share = budget
        self._budget = SnapshotBudget(budget)
        self._life = Life(_age_ns())
        self._pages = Pages()
        self._aftermath: Optional[Aftermath] = None
        self._folder = os.environ.get("PARAMEDIC_RING_DIR", "")
        self._run_id = os.environ.get("PARAMEDIC_RUN_ID", "")
        self._prefix = os.path.join(self._folder, f"paramedic-{self._run_id}")
        self._tap = session.tap("snapshots")
        self._forkable = forkable.Forkable(session.torch)
        self._effects = effects.Effects()
        self._page: Optional[SnapshotPage] = None
        self._output: Optional[OutputPage] = None
        self._owner = os.getpid()
        self._generation = 0
        self._standby = 0
        self._ended: List[int] = []  # copies that were told to end, not yet waited for
        self._failures = 0
        # By the clock, if no time is lost until then; the second is for who is in a hurry.
        self._due_ns = self._hurried_ns = 0
        self._retry_ns = 0
        optimizer: Any = sys.modules["torch.optim.optimizer"]
        self._hook = GlobalHook(optimizer._global_optimizer_post_hooks, self._after_step)

    def watch(self) -> None:
        """Puts the hook in place; makes the page, so that the supervisor knows of this process."""
        self._output = OutputPage.open(self._folder, self._run_id)
        self._page = SnapshotPage.create(self._folder, self._run_id, rank_from_env()[0])
        self._hook.arm()
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._close)

    def after_backward(self) -> None:
        """For loops that update their weights without an optimizer."""
        self._after_step(None, None, None)

    def before_epoch(self, loader: Any) -> None:
        """While a loader has workers there can be no snapshot: this is the time before them."""
        if loader.num_workers > 0 and self._is_due(monotonic_ns()):
            self._try()

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """After each step of an optimizer: one look at the clock."""
        now = monotonic_ns()
        if self._aftermath is not None and get_ident() == _main_thread():
            self._watch(self._aftermath)
        if now >= self._retry_ns and self._is_due(now):
            self._try()

    def _watch(self, aftermath: Aftermath) -> None:
        excess_ns = aftermath.step(thread_time_ns())
        if excess_ns is not None:
            self._budget.followed(excess_ns)
            self._aftermath = None

    def _try(self) -> None:
        if not self._tap.on or self._page is None:
            return
        start = monotonic_ns()
        try:
            self._take()
            self._session.spent_ns += monotonic_ns() - start
        except Exception as error:
            self._tap.fail(error)
            self._hook.disarm()

    def _is_due(self, now: int) -> bool:
        if now < (self._hurried_ns if self._effects.unrepeatable else self._due_ns):
            return False
        if get_ident() != _main_thread():
            return False
        lived_ns = self._life.lived_ns
        self._due_ns = now + int(self._budget.due_ns() - lived_ns)
        self._hurried_ns = now + int(self._budget.due_ns(hurry=True) - lived_ns)
        return now >= (self._hurried_ns if self._effects.unrepeatable else self._due_ns)

    def _take(self) -> None:
        """Makes a copy, or says why not; the copy comes back from here when it has to go on."""
        start, lived_ns = thread_time_ns(), self._life.lived_ns
        reason = self._obstacle()
        if not reason:
            while not self._fork():
                # This is the copy, and it goes on now: first it makes one of its own.
                start = thread_time_ns()
                self._life.go_on(lived_ns)
            reason = self._forkable.strange_threads()
        took_ns = thread_time_ns() - start
        self._budget.attempted(took_ns)
        if not reason:
            self._failures = 0
            self._budget.taken(took_ns, self._life.lived_ns)
            self._aftermath = Aftermath(thread_time_ns())
            self._due_ns = self._hurried_ns = 0
            return
        # The older copy is kept: it has only more to repeat.
        self._failures += 1
        self._retry_ns = monotonic_ns() + max(RETRY_NS, int(took_ns / self._share))
        if self._page is not None and not self._standby:
            self._page.tell(reason)
        if self._failures == FAILURES_TOLD:
            self._session.not_captured("snapshots", reason)

    def _obstacle(self) -> str:
        try:
            self._positions()
            children = {self._standby, *self._ended}
            return self._forkable.obstacle(self._prefix, children)
        except (OSError, ValueError) as error:
            return str(error)

    def _positions(self) -> List[int]:
        assert self._output is not None
        return [self._output.position(fd) for fd in (1, 2)]

    def _fork(self) -> bool:
        """Makes a copy and publishes it; False in the copy, once it has been told to go on."""
        self._reap()
        # No handler of the job runs, and no thread comes in, between what was looked at and the
        # word that publishes the copy.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(NEVER_S)
        try:
            return self._fork_undisturbed(monotonic_ns())
        finally:
            sys.setswitchinterval(switch_s)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _fork_undisturbed(self, start: int) -> bool:
        generation, owner = self._generation + 1, os.getpid()
        files, positions = self._forkable.files(self._prefix), self._positions()
        random_state = random.getstate()  # the fork seeds it anew in the child
        self._session.forking = True
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of other threads; `strange_threads` looks at them.
                warnings.simplefilter("ignore")
                self._forkable.end_pools()
                pid = os.fork()
                if pid == 0:
                    self._stand_by(owner, generation, files)
                    random.setstate(random_state)
                    return False
        finally:
            self._session.forking = False
        if self._forkable.strange_threads():
            self._end(pid)
        else:
            self._publish(generation, positions, pid, monotonic_ns() - start)
        return True

    def _publish(self, generation: int, positions: List[int], pid: int, took_ns: int) -> None:
        """Makes the copy `pid` the newest one, and ends the one before."""
        page, step, (stdout, stderr) = self._page, self._session.step, positions
        assert page is not None
        self._effects.begin(page, generation % 2)
        page.publish(Slot(generation, step, stdout, stderr, time.time_ns(), took_ns, pid))
        old, self._standby, self._generation = self._standby, pid, generation
        if old:
            self._budget.replaced(self._pages.copied_for(old), self._pages.page_ns)
            self._end(old)
        self._pages.forked()

    def _end(self, pid: int) -> None:
        """Ends a copy of ours that is of no use; `_reap` waits for it."""
        os.kill(pid, signal.SIGKILL)
        self._ended.append(pid)

    def _reap(self) -> None:
        still = []
        for pid in self._ended:
            try:
                ended, _, usage = os.wait4(pid, os.WNOHANG)
            except ChildProcessError:
                continue
            if ended:
                self._budget.ended(1e9 * (usage.ru_utime + usage.ru_stime))
            else:
                still.append(pid)
        self._ended = still

    def _stand_by(self, owner: int, generation: int, files: List[effects.OpenFile]) -> None:
        """In the copy: comes back when the supervisor wants this one to go on, or never."""
        try:
            page = self._page
            assert page is not None
            self._effects.end()
            # Where memory runs out the copy has to go, not the job; and collectors pass it over.
            old_score = _exchange("/proc/self/oom_score_adj", "1000")
            old_name = _exchange("/proc/self/comm", STANDBY_NAME)
            _wait_for_order(page, owner, generation)
            try:
                self._go_on(page, generation, files)
                _exchange("/proc/self/oom_score_adj", old_score)
                _exchange("/proc/self/comm", old_name)
            except Exception as error:
                page.answer(UNKNOWN, str(error))
                os._exit(1)
            page.answer(generation)
        except BaseException:
            # Whatever it was: two processes must not train at once.
            os._exit(1)

    def _go_on(self, page: SnapshotPage, generation: int, files: List[effects.OpenFile]) -> None:
        """Puts back what this copy shares with the process that died."""
        if not page.is_repeatable(generation % 2):
            raise OSError(page.reason)
        for file in files:
            file.check()
        for batch in self._forkable.batches():
            batch.check()
        effects.take_back(page, generation % 2)
        for file in files:
            file.put_back()
        forkable.free_locks()
        session, step = self._session, self._session.step
        session.off = session.forking = False
        session.begin_anew(step)
        self._standby, self._ended, self._generation = 0, [], 0
        recovery.process = self._owner = os.getpid()
        self._page = SnapshotPage.create(self._folder, self._run_id, rank_from_env()[0])

    def _after_fork(self) -> None:
        """In a child that the job made itself: its parent's copies are not its own."""
        if not self._session.forking:
            self._hook.disarm()
            self._effects.end()
            self._page = None

    def _close(self) -> None:
        """The process ends in good order."""
        page = self._page
        if page is None or os.getpid() != self._owner:
            return
        page.close()
        self._effects.end()
        if self._standby:
            self._end(self._standby)
        page.remove()


def _main_thread() -> Optional[int]:
    return threading.main_thread().ident


def _wait_for_order(page: SnapshotPage, owner: int, generation: int) -> None:
    """Until the owner has died and this generation is the one that is to go on; else ends."""
    supervisor = _supervisor()
    if os.getppid() == owner:
        fd = os.pidfd_open(owner)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if os.getppid() == owner:
            poll.poll()
        os.close(fd)
    while page.order != generation:
        # Without the supervisor, which orphans of the job come to, nobody will ask for it.
        if page.closed or page.order or page.published != generation:
            os._exit(0)
        if os.getppid() not in (owner, supervisor):
            os._exit(0)
        time.sleep(ORDER_POLL_S)


def _exchange(path: str, text: str) -> str:
    """What stood in a setting of this process; a kernel that refuses the new one is let be."""
    with open(path, encoding="utf-8", errors="replace") as setting:
        old = setting.read().strip()
    try:
        with open(path, "w", encoding="utf-8") as setting:
            setting.write(text)
    except OSError:
        return old
    return old


def _age_ns() -> int:
    """How long this process has been there."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stat:
        started = int(stat.read().rpartition(")")[2].split()[19])
    ticks = os.sysconf("SC_CLK_TCK")
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started * (1_000_000_000 // ticks)
