"""Strategies being made: where the processes of a cluster meet, and what each takes itself for.

A worker that hangs there has not trained yet, so its ring is opened here.
"""

import functools
import sys
from time import perf_counter_ns
from typing import Any, Callable, Dict, List, Optional

from paramedic.adapters.common.rendezvous import note_end
from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.tensorflow.session import Session
from paramedic.adapters.tensorflow.task import task_of, text_of

# Module of tensorflow.python, class, place of the cluster resolver among its arguments.
_COORDINATES = "ParameterServerStrategyV2"
_MAKERS = (
    ("distribute.collective_all_reduce_strategy", "CollectiveAllReduceStrategy"),
    ("distribute.parameter_server_strategy_v2", _COORDINATES),
)


class Strategies:
    """Watches strategies and servers come to be."""

    def __init__(self, session: Session, source: Source) -> None:
        self._session = session
        self._source = source
        self._tap = session.tap("strategies")
        # Called when a job of several processes begins, in the thread that does it.
        self.on_begin: List[Callable[[], None]] = []

    def watch(self) -> None:
        """Replaces what makes them."""
        for module, name in _MAKERS:
            owner: Any = sys.modules.get("tensorflow.python." + module)
            if owner is not None:
                self._wrap(getattr(owner, name), name)
        servers: Any = sys.modules.get("tensorflow.python.training.server_lib")
        if servers is not None:
            self._wrap(servers.Server, "Server")

    def _wrap(self, owner: Any, name: str) -> None:
        genuine, tap = owner.__init__, self._tap

        @functools.wraps(genuine)
        def __init__(made: Any, *args: Any, **kwargs: Any) -> None:
            fields = None
            if tap.on:
                try:
                    # A server is given its task by hand: its own environment has it too.
                    given = args[0] if args else kwargs.get("cluster_resolver")
                    resolver = None if name == "Server" else given
                    fields = self._begin(made, name, text_of(resolver))
                except Exception as error:
                    tap.fail(error)
            start = perf_counter_ns()
            try:
                genuine(made, *args, **kwargs)
            except BaseException as error:
                self._done(fields, start, error)
                raise
            self._done(fields, start, None)

        owner.__init__ = __init__

    def _begin(self, made: Any, name: str, text: str) -> Optional[Dict[str, Any]]:
        session, task = self._session, task_of(text)
        if task is None or task.world_size < 2:
            return None
        session.task = task
        fields: Dict[str, Any] = {
            "state": "begun",
            "where": where(place(self._source.construction(made, sys._getframe(2)))),
            "init_method": name,
            "tf_config": text,
            "took_ms": 0.0,
            "error": None,
        }
        if not session.open_ring(task.rank, task.world_size):
            return None
        session.shared = True
        if name == _COORDINATES:
            # It trains by the hands of others, whom threads of its own serve.
            session.active()
        session.tell("rendezvous", fields)
        for callback in self.on_begin:
            callback()
        return fields

    def _done(self, fields: Optional[Dict[str, Any]], start: int, error: Any) -> None:
        if fields is None or not self._tap.on:
            return
        try:
            note_end(fields, start, error)
            self._session.tell("rendezvous", fields)
        except Exception as problem:
            self._tap.fail(problem)
