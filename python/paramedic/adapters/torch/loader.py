"""Watches DataLoaders: how long a batch was waited for, and the loaders' settings.

Nothing is attached in worker processes: they never open a ring.
"""

import functools
import sys
import weakref
from time import perf_counter_ns
from typing import Any, Callable, Dict, List

from paramedic.adapters.common.source import Source, place
from paramedic.adapters.torch.model_facts import ModelFacts
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.quick import Quick
from paramedic.adapters.torch.session import Session

MAX_LOADERS = 100  # told in a run


class Loaders:
    """Wraps `DataLoader.__iter__` and its iterators' `__next__`."""

    def __init__(
        self, session: Session, source: Source, phases: Phases, facts: ModelFacts, quick: Quick
    ) -> None:
        self._quick = quick
        self._session = session
        self._source = source
        self._phases = phases
        self._facts = facts
        self._tap = session.tap("data loaders")
        # The batch of the open step, for its repetition (nan_origin); dropped with the step.
        self.batch: Any = None
        self.before_epoch: List[Callable[[Any], None]] = []
        # Called with a loader and its iterator, once it has one for an epoch.
        self.opened: List[Callable[[Any, Any], None]] = []
        session.on_fork.append(self.end_step)
        self._told: Dict[int, "weakref.ref[Any]"] = {}

    def end_step(self) -> None:
        """Never holds a batch for longer than the step that used it."""
        if not self._session.forking:
            self.batch = None

    def watch(self) -> None:
        """Replaces the two methods."""
        dataloader = sys.modules["torch.utils.data.dataloader"]
        self._wrap_iter(dataloader.DataLoader)
        self._wrap_next(dataloader._BaseDataLoaderIter)

    def _wrap_iter(self, loader_class: Any) -> None:
        genuine, tap = loader_class.__iter__, self._tap

        @functools.wraps(genuine)
        def __iter__(loader: Any) -> Any:
            if tap.on:
                try:
                    if self._session.active():
                        # Starting workers may take seconds.
                        self._session.flush()
                        self._tell(loader)
                        for callback in self.before_epoch:
                            callback(loader)
                except Exception as error:
                    tap.fail(error)
            iterator = genuine(loader)
            if tap.on and self._session.active():
                for opened in self.opened:
                    opened(loader, iterator)
            return iterator

        loader_class.__iter__ = __iter__

    def _wrap_next(self, iterator_class: Any) -> None:
        genuine, tap, session, phases = (
            iterator_class.__next__,
            self._tap,
            self._session,
            self._phases,
        )
        grad_enabled, quick = session.torch.is_grad_enabled, self._quick

        @functools.wraps(genuine)
        def __next__(iterator: Any) -> Any:
            if not tap.on or not session.active():
                return genuine(iterator)
            session.signs += 1
            self.batch = None
            if quick.on and grad_enabled():
                self.batch = batch = genuine(iterator)
                return batch
            start = perf_counter_ns()
            quick.leave()
            batch = genuine(iterator)
            try:
                phases.data_fetched(start, perf_counter_ns(), grad_enabled())
                self.batch = batch
            except Exception as error:
                tap.fail(error)
            return batch

        iterator_class.__next__ = __next__

    def _tell(self, loader: Any) -> None:
        known = self._told.get(id(loader))
        if (known is not None and known() is loader) or len(self._told) >= MAX_LOADERS:
            return
        self._told[id(loader)] = weakref.ref(loader)
        self._facts.tell_loader(loader, place(self._source.frame(sys._getframe(2))))
