"""The adapter for TensorFlow (2.x) with Keras 3 or tf_keras: attached right after the import.

`calls` (traced functions: steps, and where workers wait), `marks` (what a function does, learned
while it is traced), `losses`, `strategies` (where processes meet), `inputs` (what workers read),
`closures` (what a coordinator sends), `pace` and `stalls`. Only what Python calls is seen: a loop
over the data inside of one traced function is one step. TensorFlow is not imported by us.
"""

import sys
from typing import Any, Callable, Dict, List, Set

from paramedic.adapters.common.ending import tell_end
from paramedic.adapters.common.facts import Facts
from paramedic.adapters.common.source import Source
from paramedic.adapters.common.stalls import Stalls
from paramedic.adapters.tensorflow.calls import Calls
from paramedic.adapters.tensorflow.closures import Closures
from paramedic.adapters.tensorflow.inputs import Inputs
from paramedic.adapters.tensorflow.losses import Losses
from paramedic.adapters.tensorflow.marks import MarkBook
from paramedic.adapters.tensorflow.pace import Pace
from paramedic.adapters.tensorflow.session import Session
from paramedic.adapters.tensorflow.stalls import Watched
from paramedic.adapters.tensorflow.strategies import Strategies

# Module of an optimizer -> the class in it, and its method that changes weights.
OPTIMIZERS = {
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", "apply"),
    "tf_keras.src.optimizers.optimizer": ("_BaseOptimizer", "apply_gradients"),
    "tf_keras.src.optimizers.legacy.optimizer_v2": ("OptimizerV2", "apply_gradients"),
}

_attached: List["Adapter"] = []


def attach(module: Any) -> None:
    """Called when tensorflow was imported, and when a module of optimizers was."""
    name = module.__name__
    if name == "tensorflow":
        if not _attached:
            adapter = Adapter(module)
            _attached.append(adapter)
            adapter.watch()
        return
    # Keras computes with other frameworks too.
    if _attached:
        _attached[0].watch_optimizer(module)


class Adapter:
    """All taps of a process."""

    def __init__(self, tensorflow: Any) -> None:
        self.session = session = Session(tensorflow)
        self.source = source = Source(tensorflow)
        self.marks = MarkBook()
        self._followed: Set[str] = set()
        self.pace = Pace(session, source)
        self.calls = Calls(session, source, self.marks, self.pace)
        self.losses = Losses(session, source, self.marks)
        self.inputs = Inputs(session, source)
        self.calls.on_trained = self._trained
        self.closures = Closures(session, self.calls.end_step)
        self.strategies = Strategies(session, source)
        self.stalls = Stalls(session, source, Watched(session, self.calls, self.closures))
        self.strategies.on_begin.append(self.stalls.start)
        self.strategies.on_begin.append(Facts(session, source, self._facts).tell)

    def watch(self) -> None:
        """Replaces what the taps replace; each part by itself, so that one may fail."""
        parts: Dict[str, Callable[[], None]] = {
            "functions": self.calls.watch,
            "strategies": self.strategies.watch,
            "loss": self.losses.watch,
            "data sets": self.inputs.watch,
            "scheduled functions": self.closures.watch,
        }
        self.session.put_in_place(parts)
        for name in OPTIMIZERS:
            if name in sys.modules:
                self.watch_optimizer(sys.modules[name])
        tell_end(self.session, self.source, self.stalls.stop)

    def watch_optimizer(self, module: Any) -> None:
        """Follows the optimizers of a module that was imported."""
        owner, method = OPTIMIZERS[module.__name__]
        if module.__name__ in self._followed:
            return
        self._followed.add(module.__name__)
        try:
            self.calls.wrap_optimizer(getattr(module, owner), method)
        except Exception as error:
            self.session.not_captured("optimizers", f"{type(error).__name__}: {error}")

    def _trained(self, losses: Any, arguments: Any) -> None:
        if losses:
            self.losses.read(losses)
        self.inputs.trained_with(arguments)

    def _facts(self) -> Dict[str, str]:
        facts = {"tensorflow": str(self.session.tensorflow.__version__)}
        for name in ("keras", "tf_keras"):
            version = getattr(sys.modules.get(name), "__version__", None)
            if isinstance(version, str):
                facts[f"package/{name}"] = version
        return facts
