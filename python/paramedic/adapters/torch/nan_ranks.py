"""One rank of a job repeats an iteration by itself: collectives reach nobody.

For the child that `nan_origin` forks only. Every group behaves as if this rank stood alone, so
that a reduction gives the rank's own values, and a gathering its own values in every place: what
is not finite then was born on this rank.
"""

import sys
from typing import Any, Iterator

_GATHERS = ("allgather", "allgather_coalesced", "_allgather_base", "all_gather_single",
            "all_gather_single_coalesced", "allgather_into_tensor_coalesced", "gather")  # fmt: skip
_OTHERS = ("allreduce", "allreduce_coalesced", "broadcast", "reduce", "scatter", "send", "recv",
           "recv_anysource", "barrier", "monitored_barrier", "alltoall", "alltoall_base",
           "all_to_all_single", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single",
           "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced")  # fmt: skip


class _Done:
    """The work of a collective that is over."""

    def wait(self, timeout: Any = None) -> bool:
        """Nothing is waited for."""
        return True

    def is_completed(self) -> bool:
        """Always."""
        return True

    is_success = is_completed


def stand_alone(torch: Any) -> None:
    """Cuts this process off from the other ranks; there is no way back."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return
    group_class = distributed.ProcessGroup
    for name in _GATHERS:
        if hasattr(group_class, name):
            setattr(group_class, name, _gather)
    for name in _OTHERS:
        if hasattr(group_class, name):
            setattr(group_class, name, _nothing)
    # Its own forward would wait for buffers, and get its reducer ready for gradients.
    wrapper = torch.nn.parallel.DistributedDataParallel
    wrapper.forward = lambda self, *args, **kwargs: self.module(*args, **kwargs)


def _nothing(group: Any, *args: Any, **kwargs: Any) -> _Done:
    return _Done()


def _gather(group: Any, outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> _Done:
    for output, own in _pairs(outputs, inputs):
        if output.numel() == own.numel():
            output.copy_(own.view(output.shape))
        elif own.numel() and output.numel() % own.numel() == 0:
            output.view(-1, own.numel()).copy_(own.reshape(1, -1))
    return _Done()


def _pairs(outputs: Any, inputs: Any) -> Iterator[Any]:
    """(place, own tensor), however deep the lists are."""
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
        outputs = [outputs]
    for output, own in zip(outputs, inputs):
        places = output if isinstance(output, (list, tuple)) else [output]
        for place in places:
            yield place, own
