"""Remembers where the user's code made each module, optimizer and loader.

The constructors of the base classes are wrapped: one walk up the stack for each object made, a few
microseconds, at construction only. Objects are held weakly and carry nothing of ours.
"""

import functools
import sys
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from paramedic.adapters.common.session import Session, Tap
from paramedic.adapters.common.source import Source, place

# Objects remembered; beyond it the dead are dropped, then no more are taken.
MAX_OBJECTS = 100_000
MAX_LOADED = 1000  # modules with loaded weights

Place = Tuple[str, int, str]
NOWHERE: Place = ("", 0, "")


class Origins:
    """Places of construction by object."""

    def __init__(self, session: Session, source: Source) -> None:
        self._tap = session.tap("places of construction")
        self._source = source
        self._places: Dict[int, Tuple["weakref.ref[Any]", Place]] = {}
        self._loaded: Dict[int, "weakref.ref[Any]"] = {}

    def watch(self, base: type, then: Optional[Callable[[Any], None]] = None) -> None:
        """Wraps `base.__init__`; `then` is called with each new object, once its base is made."""
        genuine = base.__init__  # type: ignore[misc]
        note, tap = self.note, self._tap

        @functools.wraps(genuine)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            genuine(self, *args, **kwargs)
            if tap.on:
                _note(tap, note, self, then)

        base.__init__ = __init__  # type: ignore[misc]

    def note(self, thing: Any) -> None:
        """Remembers the user's line that is constructing `thing` right now."""
        if len(self._places) >= MAX_OBJECTS:
            self._drop_dead()
            if len(self._places) >= MAX_OBJECTS:
                return
        spot = place(self._source.construction(thing, sys._getframe(1)))
        self._places[id(thing)] = (weakref.ref(thing), spot)

    def of(self, thing: Any) -> Place:
        """Where `thing` was made; NOWHERE when unknown (copied or unpickled)."""
        found = self._places.get(id(thing))
        return found[1] if found is not None and found[0]() is thing else NOWHERE

    def note_loaded(self, module: Any) -> None:
        """Remembers that a module got weights from elsewhere: it may have been trained before."""
        if len(self._loaded) >= MAX_LOADED:
            self._loaded.clear()
        self._loaded[id(module)] = weakref.ref(module)

    def is_loaded(self, module: Any) -> bool:
        """Whether `note_loaded` was called for it."""
        found = self._loaded.get(id(module))
        return found is not None and found() is module

    def alive(self, kind: type) -> Iterator[Any]:
        """The objects of a class that are alive, in the order of their construction."""
        entries: List[Tuple["weakref.ref[Any]", Place]] = list(self._places.values())
        for reference, _ in entries:
            thing = reference()
            if isinstance(thing, kind):
                yield thing

    def _drop_dead(self) -> None:
        dead = [key for key, (reference, _) in self._places.items() if reference() is None]
        for key in dead:
            del self._places[key]


def _note(
    tap: Tap, note: Callable[[Any], None], thing: Any, then: Optional[Callable[[Any], None]]
) -> None:
    try:
        note(thing)
        if then is not None:
            then(thing)
    except Exception as error:
        tap.fail(error)
