"""What the graph of a loss says about the loss itself, looked at once for each line.

A cross entropy takes scores and makes the softmax itself. Where its input comes straight from a
softmax or a sigmoid these are squashed twice, and the loss cannot fall below a floor. And binary
cross entropy has no lower bound for targets outside of 0 to 1, as -1 and 1, or 1 and 2.
"""

from collections import deque
from typing import Any, Container, Deque, Dict, List, Optional, Tuple

from paramedic.adapters.common.source import where
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.session import Session

# From `backward()`'s tensor to the loss: sums of several losses, weights, scales.
MAX_NODES = 200
MAX_SHAPES = 20  # nodes in a row that change only the shape
MAX_TARGETS = 1 << 22
# Targets a little outside are a known trick against overconfident discriminators.
TARGETS_OUTSIDE = 0.5
_CLASSES = {"NllLossBackward", "NllLoss2DBackward", "NllLossNdBackward"}
_BINARY = {"BinaryCrossEntropyWithLogitsBackward", "BinaryCrossEntropyBackward"}
_SQUASHED = {"SoftmaxBackward": "softmax", "SigmoidBackward": "sigmoid"}
_SHAPES = {
    *("AliasBackward", "CloneBackward", "IndexBackward", "PermuteBackward"),
    *("ReshapeAliasBackward", "SelectBackward", "SliceBackward", "SqueezeBackward", "TBackward"),
    *("ToCopyBackward", "TransposeBackward", "UnsafeViewBackward", "UnsqueezeBackward"),
    *("ViewBackward",),
}


class LossGraph:
    """Looks at the first graph of each line that calls `backward()`."""

    def __init__(self, session: Session, models: Models, origins: Origins) -> None:
        self._session = session
        self._models = models
        self._origins = origins
        self._tap = session.tap("the graph of a loss")

    def look(self, line: Any, tensors: Any, first: bool) -> None:
        """Judges the loss of a line that is new to this fit."""
        if not first or not self._tap.on or not isinstance(tensors, self._session.torch.Tensor):
            return
        try:
            for node in search(tensors.grad_fn, _CLASSES | _BINARY):
                self._judge(node, line)
        except Exception as error:
            self._tap.fail(error)

    def _judge(self, node: Any, line: Any) -> None:
        kind = kind_of(node)
        fields: Dict[str, Any] = {"loss": line.name, "where": where(line.place)}
        squashed = _squashed(node)
        if squashed is not None:
            fields["function"], fields["log_missing"] = squashed
            made = self._made(squashed[0])
            if made is not None:
                fields["where"] = made
            self._session.event("squashed_before_loss", fields)
        if kind in _BINARY:
            ends = _ends(saved(node, "target"))
            if ends is not None and (ends[0] < -TARGETS_OUTSIDE or ends[1] > 1 + TARGETS_OUTSIDE):
                fields["low"], fields["high"] = ends
                fields["where"] = where(line.place)
                self._session.event("labels_out_of_range", fields)

    def _made(self, function: str) -> Optional[Dict[str, Any]]:
        """The line of the module that squashes, where it is the last one that is called."""
        calls = ((call.order, call.reference()) for call in self._models.calls.values())
        modules = [(at, m) for at, m in calls if m is not None and not _is_loss(m)]
        found = max(modules, key=lambda entry: entry[0], default=(0, None))[1]
        if not type(found).__name__.lower().startswith(function):
            return None
        made = self._origins.of(found)
        return where(made) if made[1] else None


def _is_loss(module: Any) -> bool:
    return type(module).__module__ == "torch.nn.modules.loss"


def kind_of(node: Any) -> str:
    """The class of a node, without its version: "TanhBackward"."""
    return str(node.name()).rstrip("0123456789")


def search(start: Any, kinds: Container[str]) -> List[Any]:
    """The losses that a tensor is made of: nodes of these kinds; what lies behind one is not looked
    at."""
    found: List[Any] = []
    queue: Deque[Any] = deque([start])
    for _ in range(MAX_NODES):
        if not queue:
            break
        node = queue.popleft()
        if node is None:
            continue
        if kind_of(node) in kinds:
            found.append(node)
        else:
            queue.extend(following for following, _ in node.next_functions)
    return found


def _before(node: Any) -> Any:
    """What gave the first operand of a node; changes of shape and type are passed over."""
    for _ in range(MAX_SHAPES):
        node = node.next_functions[0][0] if node.next_functions else None
        if node is None or kind_of(node) not in _SHAPES:
            break
    return node


def _squashed(loss: Any) -> Optional[Tuple[str, bool]]:
    """(function, whether the logarithm is missing) of what stands before the loss wrongly."""
    kind, before = kind_of(loss), _before(loss)
    if before is None or kind == "BinaryCrossEntropyBackward":
        return None
    if kind in _CLASSES and kind_of(before) == "LogSoftmaxBackward":
        before = _before(before)
    elif kind in _CLASSES:
        function = _SQUASHED.get(kind_of(before))
        return None if function is None else (function, True)
    function = None if before is None else _SQUASHED.get(kind_of(before))
    return None if function is None else (function, False)


def is_weighted(node: Any) -> bool:
    """Whether positives count more than negatives in a binary cross entropy: then nobody knows what
    guessing gives."""
    if node is None or kind_of(node) != "BinaryCrossEntropyWithLogitsBackward":
        return False
    return saved(node, "pos_weight") is not None or saved(node, "weight") is not None


def saved(node: Any, name: str) -> Optional[Any]:
    """A tensor that a node saved; None as well where it is packed away by the job's own hooks: to
    unpack it might run a checkpoint again. A torch that does not say so is asked for nothing."""
    saved = getattr(node, "_raw_saved_" + name, None)
    if getattr(saved, "unpack_hook", saved) is not None:
        return None
    return getattr(node, "_saved_" + name, None)


def _ends(targets: Any) -> Optional[Tuple[float, float]]:
    if targets is None or not targets.is_cpu or not 0 < targets.numel() <= MAX_TARGETS:
        return None
    low, high = targets.detach().aminmax()
    return float(low), float(high)
