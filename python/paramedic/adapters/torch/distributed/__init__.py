"""What is seen of a job of several ranks: collectives, process groups, stalls, wrapped models.

`groups` (the rendezvous and the process groups), `collectives` (calls of a group), `functional`
(the collectives of DTensor), `wrapping` (DDP, FSDP, join), `stalls` (a thread that looks whether
the job goes on) and `ending`. Nothing here talks to another rank: all goes to the ring.
"""

from typing import Any, Callable, Dict, List

from paramedic.adapters.common.ending import tell_end
from paramedic.adapters.common.source import Source
from paramedic.adapters.common.stalls import Stalls
from paramedic.adapters.torch.distributed.collectives import Collectives
from paramedic.adapters.torch.distributed.flight import Flight
from paramedic.adapters.torch.distributed.groups import Groups
from paramedic.adapters.torch.distributed.replace import available
from paramedic.adapters.torch.distributed.stalls import Watched
from paramedic.adapters.torch.distributed.wrapping import Wrapping
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.session import Session

_made: List["Distributed"] = []


class Distributed:
    """All taps of distributed training of a process."""

    def __init__(self, session: Session, source: Source, origins: Origins, phases: Phases) -> None:
        self.session = session
        self.source = source
        self.groups = groups = Groups(session, source)
        self.collectives = Collectives(session, source, groups)
        self.wrapping = Wrapping(session, source, origins, groups)
        self.flight = Flight(session, self.collectives)
        watched = Watched(session, self.collectives, phases, self.flight)
        self.stalls = Stalls(session, source, watched)
        groups.on_begin.append(self.flight.prepare)
        groups.on_begin.append(self.stalls.start)

    def watch(self) -> None:
        """Puts the taps in place; nothing where torch was built without torch.distributed."""
        c10d = available()
        if c10d is None:
            return
        _made[:] = [self]
        parts: Dict[str, Callable[[Any], None]] = {
            "process groups": self.groups.watch,
            "collectives": self.collectives.watch,
            "models of several ranks": self.wrapping.watch,
        }
        for what, part in parts.items():
            try:
                part(c10d)
            except Exception as error:
                self.session.not_captured(what, f"{type(error).__name__}: {error}")
        tell_end(self.session, self.source, self.stalls.stop)


def attach(module: Any) -> None:
    """Called when a part of torch.distributed was imported that is not there from the start."""
    if not _made:
        return
    name = module.__name__
    try:
        if name.endswith("_functional_collectives"):
            _made[0].collectives.watch_functional(module)
        else:
            _made[0].wrapping.watch_fsdp(module)
    except Exception as error:
        _made[0].session.not_captured(name, f"{type(error).__name__}: {error}")
