"""What TensorFlow tells of a worker that does not come forward; the thread is in common/stalls.

Progress is a call of a function that trains or exchanges something, begun or ended, and a step.
"""

from typing import Any, Dict, Optional, Tuple

from paramedic.adapters.common import stalls
from paramedic.adapters.common.stacks import MAX_LOOKED_AT, phase_of
from paramedic.adapters.tensorflow.calls import GROUP, Calls
from paramedic.adapters.tensorflow.closures import Closures
from paramedic.adapters.tensorflow.session import Session

# Of the innermost frame that is one of these: (part of the file's folder or name, phase).
_PLACES = (
    ("/tensorflow/python/checkpoint/", "checkpoint"),
    ("/tensorflow/python/saved_model/", "checkpoint"),
    ("/keras/src/saving/", "checkpoint"),
    ("/tf_keras/src/saving/", "checkpoint"),
    ("/tensorflow/python/data/", "data"),
    ("/tensorflow/python/eager/polymorphic_function/", "compile"),
    ("/tensorflow/python/autograph/", "compile"),
)
_EVALUATIONS = ("evaluate", "predict")


class Watched(stalls.Watched):
    """The calls of the thread that trains."""

    def __init__(self, session: Session, calls: Calls, closures: Closures) -> None:
        self._session = session
        self._calls = calls
        self._closures = closures
        self._others = -1  # when the stall was first told; -1: none was

    def progress(self) -> Tuple[int, ...]:
        return self._session.step, self._calls.count, self._closures.count

    def begin(self) -> None:
        if self._others < 0:
            self._others = self._calls.others

    def end(self) -> None:
        self._others = -1

    def tell(self, thread: int, frame: Any) -> Dict[str, Any]:
        self._closures.tell()
        inside, waiting = self._calls.inside, None
        if inside is not None:
            waiting = {"group": GROUP, "sequence": inside[0], "operation": inside[1]}
        evaluating = _evaluates(frame)
        return {
            "waiting": waiting,
            "phase": "validation" if evaluating else phase_of(frame, _PLACES),
            "evaluating": evaluating,
            "torch_calls_since": self._calls.others - self._others if self._others >= 0 else None,
        }


def _evaluates(frame: Optional[Any]) -> bool:
    """Whether Keras is evaluating, or predicting."""
    for _ in range(MAX_LOOKED_AT):
        if frame is None:
            return False
        if frame.f_code.co_name in _EVALUATIONS and "keras" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
