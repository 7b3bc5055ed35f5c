"""Models that are made to train in several ranks: DDP and FSDP, and how their ranks may differ.

Told once each: what was wrapped, where, with which settings; and that `join` or `no_sync` is used,
which make batches and reductions legal that would otherwise be a mistake.
"""

import functools
import sys
from typing import Any, Dict, List, Set, Tuple

from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.torch.distributed.groups import Groups
from paramedic.adapters.torch.distributed.replace import replace
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.session import Session

MAX_WRAPPED = 200  # told in a process: FSDP wraps each layer


class Wrapping:
    """Watches models being wrapped."""

    def __init__(self, session: Session, source: Source, origins: Origins, groups: Groups) -> None:
        self._session = session
        self._source = source
        self._origins = origins
        self._groups = groups
        self._tap = session.tap("models of several ranks")
        self._told = 0
        self._quiet_sites: Set[Tuple[str, int, str]] = set()
        session.on_fork.append(self._quiet_sites.clear)

    def watch(self, c10d: Any) -> None:
        """Replaces what wraps models, as far as it was imported."""
        parallel = sys.modules.get("torch.nn.parallel.distributed")
        if parallel is not None:
            self._wrap_class(parallel.DistributedDataParallel, "ddp")
            self._wrap_no_sync(parallel.DistributedDataParallel)
        join = sys.modules.get("torch.distributed.algorithms.join")
        if join is not None:
            self._wrap_join(join.Join)

    def watch_fsdp(self, module: Any) -> None:
        """Replaces both ways of FSDP, once `torch.distributed.fsdp` was imported."""
        self._wrap_class(module.FullyShardedDataParallel, "fsdp")
        genuine = getattr(module, "fully_shard", None)
        if genuine is None:
            return

        @functools.wraps(genuine)
        def fully_shard(*args: Any, **kwargs: Any) -> Any:
            result = genuine(*args, **kwargs)
            if self._tap.on:
                try:
                    mesh = kwargs.get("mesh")
                    group = mesh.get_group(0) if mesh is not None else None
                    for model in result if isinstance(result, (list, tuple)) else [result]:
                        self._tell(model, model, "fsdp", group, sys._getframe(1))
                except Exception as error:
                    self._tap.fail(error)
            return result

        replace("fully_shard", genuine, fully_shard)

    def _wrap_class(self, wrapper_class: Any, kind: str) -> None:
        genuine, tap = wrapper_class.__init__, self._tap

        @functools.wraps(genuine)
        def __init__(wrapper: Any, *args: Any, **kwargs: Any) -> None:
            genuine(wrapper, *args, **kwargs)
            if tap.on:
                try:
                    frame = self._source.construction(wrapper, sys._getframe(1))
                    group = getattr(wrapper, "process_group", None)
                    self._tell(wrapper, wrapper.module, kind, group, frame)
                except Exception as error:
                    tap.fail(error)

        wrapper_class.__init__ = __init__

    def _tell(self, wrapper: Any, module: Any, kind: str, group: Any, frame: Any) -> None:
        if self._told >= MAX_WRAPPED:
            return
        self._told += 1
        known = self._groups.of(group) if group is not None else None
        self._session.tell(
            "wrapped",
            {
                "kind": kind,
                "where": where(place(self._source.frame(frame))),
                "module": type(module).__name__,
                "parameters": sum(parameter.numel() for parameter in module.parameters()),
                "find_unused": bool(getattr(wrapper, "find_unused_parameters", False)),
                "broadcast_buffers": bool(getattr(wrapper, "broadcast_buffers", False)),
                "world": len(known.ranks) if known is not None else self._session.world_size,
                "group": known.name if known is not None else None,
                "join": False,
            },
        )

    def _wrap_no_sync(self, wrapper_class: Any) -> None:
        genuine, tap = wrapper_class.no_sync, self._tap

        @functools.wraps(genuine)
        def no_sync(wrapper: Any) -> Any:
            if tap.on:
                try:
                    self._tell_no_sync(wrapper, sys._getframe(1))
                except Exception as error:
                    tap.fail(error)
            return genuine(wrapper)

        wrapper_class.no_sync = no_sync

    def _tell_no_sync(self, wrapper: Any, frame: Any) -> None:
        spot = place(self._source.frame(frame))
        if spot in self._quiet_sites or len(self._quiet_sites) >= MAX_WRAPPED:
            return
        self._quiet_sites.add(spot)
        group = self._groups.of(wrapper.process_group)
        fields = {"where": where(spot), "group": group.name if group is not None else None}
        self._session.tell("no_sync", fields)

    def _wrap_join(self, join_class: Any) -> None:
        tap = self._tap

        def telling(genuine: Any, state: str) -> Any:
            @functools.wraps(genuine)
            def method(join: Any, *args: Any) -> Any:
                if tap.on:
                    try:
                        self._tell_join(join, state, sys._getframe(1))
                    except Exception as error:
                        tap.fail(error)
                return genuine(join, *args)

            return method

        join_class.__enter__ = telling(join_class.__enter__, "begun")
        join_class.__exit__ = telling(join_class.__exit__, "done")

    def _tell_join(self, join: Any, state: str, frame: Any) -> None:
        joinables: List[Any] = getattr(join, "_joinables", [])
        fields: Dict[str, Any] = {
            "where": where(place(self._source.frame(frame))),
            "state": state,
            "models": [type(one).__name__ for one in joinables],
        }
        self._session.tell("join", fields)
