"""What each rank reads: told for each pass over a training loader, compared by the agent.

A pass counts as training once an optimizer has stepped between two of its batches; a loader that
is read in full by all ranks for an evaluation is never told. Only in jobs of several ranks.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any, Sequence

from paramedic import _probe
from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.torch.loader import Loaders
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.shards.facts import (
    dataset_facts,
    length_of,
    root_of,
    sampler_facts,
    sharing_facts,
)
from paramedic.adapters.torch.shards.loop import shape_of
from paramedic.adapters.torch.shards.passes import IDLE_PASSES, Pass, Seats, is_full
from paramedic.adapters.torch.shards.reading import Reading
from paramedic.adapters.torch.shards.rows import Rows

MAX_PASSES = 20_000  # told of a seat
PROGRESS_AT = (32, 512, 8192)  # batches of the first pass after which it is told before its end
STEPS_PER_BATCH_MAX = 4  # more: these batches are not what the steps learn from
_PASS = "_paramedic_pass"  # on an iterator of a loader; None where it is not followed
_ASKED = "_paramedic_asked"  # on one that is being made: the batches it asked its workers for


class Shards:
    """Follows the passes over the loaders of this process."""

    def __init__(
        self, session: Session, source: Source, origins: Origins, loaders: Loaders
    ) -> None:
        self._session = session
        self._source = source
        self._origins = origins
        self._tap = session.tap("shards")
        self._seats = Seats()
        self._wrapped = False
        loaders.before_epoch.append(self._before)
        loaders.opened.append(self._opened)
        session.on_fork.append(self._seats.clear)

    def watch(self) -> None:
        """Remembers where samplers and torch's own data sets are made."""
        data: Any = sys.modules["torch.utils.data"]
        for name in ("DistributedSampler", "RandomSampler", "SubsetRandomSampler"):
            self._origins.watch(getattr(data, name))
        for name in ("TensorDataset", "Subset", "ConcatDataset"):
            self._origins.watch(getattr(data, name))

    def _before(self, loader: Any) -> None:
        """An iterator is about to be made; one with workers asks for batches at once."""
        if not self._tap.on or not self._has_peers():
            return
        self._wrap()
        # Workers that stay have the iterator of the pass before.
        kept = getattr(loader, "_iterator", None)
        before = None if kept is None else kept.__dict__.pop(_PASS, None)
        if before is not None:
            self._end(before, False)

    def _opened(self, loader: Any, iterator: Any) -> None:
        if not self._tap.on or not self._wrapped:
            return
        try:
            asked = iterator.__dict__.pop(_ASKED, ())
            iterator.__dict__[_PASS] = None
            if self._session.torch.is_grad_enabled():
                self._begin(loader, iterator, asked)
        except Exception as error:
            self._tap.fail(error)

    def _has_peers(self) -> bool:
        distributed = self._session.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_world_size()) > 1
        return _probe.rank_from_env()[1] > 1

    def _begin(self, loader: Any, iterator: Any, asked: Sequence[Any]) -> None:
        iterated = place(self._source.frame(sys._getframe(1)))
        made = self._origins.of(loader)
        seat = self._seats.take(loader, made if made[1] else iterated)
        if seat is None or seat.passes >= MAX_PASSES or seat.idle >= IDLE_PASSES:
            return
        sampler = sampler_facts(loader, self._origins)
        size = None if iterator._dataset_kind else length_of(loader.dataset)
        full = is_full(seat.passes)
        root, roots = root_of(loader.dataset) if size and full else (None, None)
        rows = Rows(self._session.torch) if full else None
        reading = Reading(size, roots, length_of(root) or 0, rows)
        facts = {
            "where": where(seat.made),
            "iterated": where(iterated),
            "batches": length_of(loader) if size is not None else None,
            "batch_size": loader.batch_size,
            "drop_last": bool(loader.drop_last),
            "sampler": sampler,
            "dataset": None,
            "root": None,
        }
        reading.asked.extend(asked)
        begun = Pass(seat, reading, facts, self._session.step)
        if full:
            facts["dataset"] = dataset_facts(loader.dataset, self._origins)
            if roots is not None:
                facts["root"] = dataset_facts(root, self._origins)
        iterator.__dict__[_PASS] = begun
        begun.let_go = weakref.finalize(iterator, self._end, begun, False)
        begun.let_go.atexit = False
        if seat.name:
            self._tell_begun(begun)
        else:
            seat.idle += 1

    def _wrap(self) -> None:
        """Follows batches from here on; jobs of one rank keep their methods."""
        if self._wrapped:
            return
        self._wrapped = True
        dataloader: Any = sys.modules["torch.utils.data.dataloader"]
        base, tap = dataloader._BaseDataLoaderIter, self._tap
        genuine_index, genuine_next, took = base._next_index, base.__next__, self._took

        @functools.wraps(genuine_index)
        def _next_index(self: Any) -> Any:
            index = genuine_index(self)
            if tap.on:
                state = self.__dict__
                if _PASS not in state:
                    state.setdefault(_ASKED, []).append(index)
                elif state[_PASS] is not None:
                    state[_PASS].reading.asked.append(index)
            return index

        @functools.wraps(genuine_next)
        def __next__(iterator: Any) -> Any:
            begun = iterator.__dict__.get(_PASS)
            if begun is None or not tap.on:
                return genuine_next(iterator)
            try:
                batch = genuine_next(iterator)
            except StopIteration:
                self._end(begun, True)
                raise
            took(begun, batch)
            return batch

        base._next_index, base.__next__ = _next_index, __next__

    def _took(self, begun: Pass, batch: Any) -> None:
        """A batch goes to the job: 3 µs, and 0.2 µs for each sample whose content is looked at."""
        try:
            if not begun.told and self._session.step > begun.first_step:
                self._now_trains(begun)
            reading = begun.reading
            reading.took(batch)
            if begun.told and not begun.number and reading.batches in PROGRESS_AT:
                self._tell_read(begun, exhausted=False, over=False)
        except Exception as error:
            self._tap.fail(error)

    def _now_trains(self, begun: Pass) -> None:
        if self._trains(begun):
            begun.seat.idle = 0
            self._seats.name(begun.seat)
            self._tell_begun(begun)

    def _trains(self, begun: Pass) -> bool:
        steps = self._session.step - begun.first_step
        return 0 < steps <= STEPS_PER_BATCH_MAX * begun.reading.batches

    def _tell_begun(self, begun: Pass) -> None:
        seat, facts = begun.seat, begun.facts
        iterated = facts["iterated"]
        seat.loop = seat.loop or shape_of(iterated["file"], iterated["line"])
        seat.batches_a_step = seat.batches_a_step or begun.reading.batches
        begun.told = True
        begun.number = seat.passes
        seat.passes += 1
        sharing = sharing_facts(self._session.torch, self._origins)
        before = {"loader": seat.name, "epoch": begun.number, "loop": seat.loop}
        after = {"batches_a_step": seat.batches_a_step, "sharing": sharing}
        self._session.event("epoch_begun", {**before, **facts, **after})

    def _end(self, begun: Pass, exhausted: bool) -> None:
        if begun.over or not self._tap.on:
            return
        begun.over = True
        try:
            begun.let_go.detach()
            if self._session.step > begun.first_step and not begun.told:
                self._now_trains(begun)
            if begun.told and self._trains(begun):
                self._tell_read(begun, exhausted, over=True)
        except Exception as error:
            self._tap.fail(error)

    def _tell_read(self, begun: Pass, exhausted: bool, over: bool) -> None:
        fields = {
            "loader": begun.seat.name,
            "epoch": begun.number,
            "exhausted": exhausted,
            "over": over,
            "steps": self._session.step - begun.first_step,
        }
        fields.update(begun.reading.facts(exhausted))
        self._session.event("epoch_read", fields)
