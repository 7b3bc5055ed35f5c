"""The session of a process that trains with TensorFlow."""

from typing import Any, Optional

from paramedic import _probe
from paramedic.adapters.common import session
from paramedic.adapters.tensorflow.task import Task, task_here


class Session(session.Session):
    """Knows the rank by TF_CONFIG, or by what a strategy was made with."""

    def __init__(self, tensorflow: Any) -> None:
        super().__init__("tensorflow", tensorflow)
        self.tensorflow = tensorflow
        # Set where a strategy is made; else as the environment says.
        self.task: Optional[Task] = None

    def _rank(self) -> "tuple[int, int]":
        self.task = self.task or task_here()
        if self.task is None:
            return _probe.rank_from_env()
        return self.task.rank, self.task.world_size
