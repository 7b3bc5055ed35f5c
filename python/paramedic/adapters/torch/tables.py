"""Notices an embedding that is asked for one and the same row again and again."""

from typing import Any, Dict, Tuple

from paramedic.adapters.torch.looks import Judge
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.session import Session

# Types of segments and kinds of tokens are few, and one of them may be all that a task needs.
ROWS_MIN = 50
LOOKS = 6
INDICES_MIN = 200  # in all


class Tables(Judge):
    """What embeddings were asked for in the looks of a fit."""

    def __init__(self, session: Session, models: Models) -> None:
        self._session = session
        self._models = models
        self.begin()

    def begin(self) -> None:
        """Forgets all tables."""
        # By module: (the only index, step, looks, indices); looks -1: there are others, or it was
        # told.
        self._seen: Dict[int, Tuple[int, int, int, int]] = {}

    def called(self, module: Any, args: Any) -> None:
        """Follows what an embedding is asked for."""
        if type(module) is not self._session.torch.nn.Embedding or not args:
            return
        indices = args[0]
        if module.num_embeddings < ROWS_MIN or not module.weight.requires_grad:
            return
        if not indices.is_cpu or not indices.numel():
            return
        low, high = (int(end) for end in indices.aminmax())
        index, last_step, looks, count = self._seen.get(id(module), (low, -1, 0, 0))
        if looks < 0:
            return
        if low != high or low != index:
            self._seen[id(module)] = (0, 0, -1, 0)
            return
        looks += last_step != self._session.step
        count += indices.numel()
        if looks >= LOOKS and count >= INDICES_MIN:
            self._tell(module, index)
            looks = -1
        self._seen[id(module)] = (index, self._session.step, looks, count)

    def _tell(self, module: Any, index: int) -> None:
        found = self._models.module(module)
        if found is not None:
            fields = {"module": found[0], "index": index, "rows": module.num_embeddings}
            self._session.event("embedding_of_one", fields)
