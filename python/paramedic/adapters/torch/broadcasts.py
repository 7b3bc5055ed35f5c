"""Notices a loss over all pairs of predictions and targets, where each prediction has one target.

Predictions of shape (N, 1) and targets of shape (N,) spread to (N, N): every prediction is drawn
to the mean of all targets. Seen in the first graph of each line that calls `backward()`: in the
losses of torch, which keep both operands as they were spread, and in a difference that is squared,
or whose absolute values are taken, and averaged or summed to the loss at once. A loss that is left
without reduction compares pairs on purpose.
"""

import sys
from collections import deque
from typing import Any, Deque, List, Optional, Tuple

from paramedic.adapters.common.source import Source, where
from paramedic.adapters.torch.loss_graph import MAX_NODES, kind_of, saved
from paramedic.adapters.torch.nan_region import stored_at
from paramedic.adapters.torch.session import Session

_LOSSES = {"MseLossBackward", "L1LossBackward", "SmoothL1LossBackward", "HuberLossBackward"}
_DIFFERENCES = {"SubBackward", "RsubBackward"}
_SIZES = {"PowBackward", "AbsBackward"}
_SUMS = {"MeanBackward", "SumBackward"}


class Broadcasts:
    """Looks at the first graph of each line."""

    def __init__(self, session: Session, source: Source) -> None:
        self._session = session
        self._source = source
        self._tap = session.tap("targets that are spread")

    def look(self, line: Any, tensors: Any, first: bool) -> None:
        """Judges the loss of a line that is new to this fit."""
        if not first or not self._tap.on or not isinstance(tensors, self._session.torch.Tensor):
            return
        try:
            rows = _spread(tensors.grad_fn)
            if rows:
                spot = stored_at(self._source.frame(sys._getframe(1)), tensors) or line.place
                fields = {"loss": line.name, "rows": rows, "where": where(spot)}
                self._session.event("loss_of_all_pairs", fields)
        except Exception as error:
            self._tap.fail(error)


def _spread(start: Any) -> int:
    """How many samples are compared with all others; 0 for none."""
    # Each node with the two between it and the loss.
    queue: Deque[Tuple[Any, Any, Any]] = deque([(start, None, None)])
    for _ in range(MAX_NODES):
        if not queue:
            return 0
        node, after, last = queue.popleft()
        if node is None:
            continue
        rows = 0
        if kind_of(node) in _LOSSES:
            rows = _of_loss(node)
        elif kind_of(node) in _DIFFERENCES and _is_averaged(after, last):
            rows = _of_difference(node)
        if rows:
            return rows
        queue.extend((following, node, after) for following, _ in node.next_functions)
    return 0


def _is_averaged(after: Any, last: Any) -> bool:
    """Whether a difference goes to the loss as it is."""
    if after is None or last is None:
        return False
    return kind_of(after) in _SIZES and kind_of(last) in _SUMS and _shape(last) == []


def _of_loss(node: Any) -> int:
    ours, theirs = saved(node, "self"), saved(node, "target")
    reduction = getattr(node, "_saved_reduction", 0)
    if ours is None or theirs is None or not reduction or ours.dim() != 2 or theirs.dim() != 2:
        return 0
    rows = int(ours.shape[0])
    if rows < 2 or ours.shape != theirs.shape or ours.shape[1] != rows:
        return 0
    spread = [(tensor.stride(0) == 0, tensor.stride(1) == 0) for tensor in (ours, theirs)]
    return rows if sorted(spread) == [(False, True), (True, False)] else 0


def _of_difference(node: Any) -> int:
    shape = _shape(node)
    operands = [following for following, _ in node.next_functions if following is not None]
    if shape is None or len(shape) != 2 or shape[0] != shape[1] or len(operands) != 1:
        return 0
    rows, operand = int(shape[0]), operands[0]
    if kind_of(operand) == "ExpandBackward":
        # As torch's own losses spread it.
        operand = operand.next_functions[0][0]
    return rows if rows > 1 and _shape(operand) in ([rows, 1], [rows]) else 0


def _shape(node: Any) -> Optional[List[int]]:
    """Of what the operation of a node gave; None where torch does not say (before 2.1)."""
    metadata = getattr(node, "_input_metadata", None)
    return [int(size) for size in metadata[0].shape] if metadata else None
