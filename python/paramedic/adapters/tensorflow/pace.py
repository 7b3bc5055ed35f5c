"""The clocks of a TensorFlow job of several workers; common/pace says what they are for."""

import os
from typing import Any, Dict

from paramedic.adapters.common import pace
from paramedic.adapters.common.source import Source
from paramedic.adapters.tensorflow.session import Session

_KINDS = (
    (os.path.join("tensorflow", "python", "data", ""), "data"),
    (os.path.join("tensorflow", "python", "distribute", "input_lib.py"), "data"),
    (os.path.join("tensorflow", "python", "checkpoint", ""), "checkpoint"),
    (os.path.join("tensorflow", "python", "saved_model", ""), "checkpoint"),
    (os.path.join("keras", "src", "saving", ""), "checkpoint"),
    (os.path.join("tensorflow", "python", "eager", "execute.py"), "function"),
)


class Pace(pace.Pace):
    """A beat is a call of a function that trains, and ends when it returns."""

    def __init__(self, session: Session, source: Source) -> None:
        self._tensorflow = session.tensorflow
        super().__init__(session, source, _KINDS)

    def waits_at(self, kind: str) -> bool:
        # Its operations run in other threads; whether they wait as well the clocks tell.
        return kind == "function"

    def _threads(self) -> Dict[str, Any]:
        threading = self._tensorflow.config.threading
        return {"threads": threading.get_intra_op_parallelism_threads() or 1}
