"""What a function of TensorFlow does, learned while it is traced.

A traced function runs in C++, where nothing of it can be seen. While it is traced its Python code
runs once, and with it what we stand in: optimizers, gradients, collectives. What they are called in
is noted for the graph that is being made and for all graphs around it.
"""

import sys
import weakref
from typing import Any, List, MutableMapping, NamedTuple, Optional

MAX_GRAPHS = 200  # nested in each other
MAX_EXCHANGES = 10_000  # of a function


class Exchange(NamedTuple):
    """A collective that a function contains."""

    operation: str
    values: int  # elements of its input; 0 = not known
    dtype: str


class Marks:
    """What a graph contains."""

    __slots__ = ("exchanges", "losses", "trains")

    def __init__(self) -> None:
        self.trains = False
        self.losses: List[Any] = []
        self.exchanges: List[Exchange] = []


class MarkBook:
    """The marks of all graphs that are alive."""

    def __init__(self) -> None:
        self._marks: MutableMapping[Any, Marks] = weakref.WeakKeyDictionary()
        self._context: Any = sys.modules["tensorflow.python.eager.context"]
        self._ops: Any = sys.modules["tensorflow.python.framework.ops"]

    def is_eager(self) -> bool:
        """Whether operations run as they are called, and are not being traced."""
        return bool(self._context.executing_eagerly())

    def of(self, graph: Any) -> Optional[Marks]:
        """The marks of a graph; None when it has none."""
        return self._marks.get(graph)

    def note_training(self) -> None:
        """An optimizer is called while a function is traced."""
        for marks in self._open():
            marks.trains = True

    def note_exchange(self, exchange: Exchange) -> None:
        """A collective is called while a function is traced."""
        for marks in self._open():
            if len(marks.exchanges) < MAX_EXCHANGES:
                marks.exchanges.append(exchange)

    def note_loss(self, loss: Any) -> None:
        """A loss is followed in the function that is traced."""
        for marks in self._open():
            marks.losses.append(loss)

    def inherit(self, inner: Marks) -> None:
        """A function that was traced before is called by one that is being traced."""
        for marks in self._open():
            marks.trains = marks.trains or inner.trains
            room = MAX_EXCHANGES - len(marks.exchanges)
            marks.exchanges.extend(inner.exchanges[:room])
            marks.losses.extend(loss for loss in inner.losses if loss not in marks.losses)

    def _open(self) -> List[Marks]:
        found: List[Marks] = []
        graph = self._ops.get_default_graph()
        for _ in range(MAX_GRAPHS):
            # The outermost is the plain graph of all that is not in a function.
            if not hasattr(graph, "outer_graph"):
                break
            found.append(self._marks.setdefault(graph, Marks()))
            graph = graph.outer_graph
        return found
