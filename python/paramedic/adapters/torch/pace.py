"""Where a rank of a torch job waits for the others; the clocks are in common/pace.

It waits where it waits for a collective (`Work.wait`, all of torch's own functions come through
it), where DistributedDataParallel shares its buffers, and where a backward pass on the CPU does not
run: there the reducer waits for the last gradients, in C++, below anything that could be wrapped.

A beat lies between two optimizer steps.
"""

import functools
import os
import sys
from _thread import get_ident
from time import perf_counter_ns, thread_time_ns
from typing import Any, Callable, Dict, Optional, Tuple

from paramedic.adapters.common import pace
from paramedic.adapters.common.clocks import LONG_PASS_NS, SHORT_PASSES
from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.loss import Losses
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.session import Session

_KINDS = (
    (os.path.join("torch", "utils", "data", ""), "data"),
    (os.path.join("torch", "serialization.py"), "checkpoint"),
    (os.path.join("torch", "optim", ""), "optimizer"),
    (os.path.join("torch", "autograd", "graph.py"), "backward"),
)


class Pace(pace.Pace):
    """The clocks of the thread that trains."""

    def __init__(self, session: Session, source: Source, losses: Losses, phases: Phases) -> None:
        self._torch = session.torch
        self._losses = losses
        self._phases = phases
        self._threads_set: Optional[Tuple[str, int, str]] = None
        super().__init__(session, source, _KINDS)

    def watch(self) -> None:
        """Notes who sets the number of threads, which happens before anything else is known."""
        torch = self._torch
        genuine = torch.set_num_threads

        @functools.wraps(genuine)
        def set_num_threads(number: int) -> None:
            self._threads_set = place(self._source.frame(sys._getframe(1)))
            genuine(number)

        torch.set_num_threads = set_num_threads

    def is_connected(self) -> bool:
        return bool(self._torch.distributed.is_initialized())

    def is_validating(self) -> bool:
        return self._phases.validating

    def waits_at(self, kind: str) -> bool:
        # In the engine itself, below Python: the reducer waits for the other ranks.
        return bool(self._state.in_backward) and kind == "backward"

    def _threads(self) -> Dict[str, Any]:
        fields: Dict[str, Any] = {"threads": self._torch.get_num_threads()}
        if self._threads_set is not None:
            fields["threads_set"] = where(self._threads_set)
        return fields

    def _wrap(self) -> None:
        torch = self._torch
        if not torch.distributed.is_available():
            return
        work = torch._C._distributed_c10d.Work
        # A native function is no method by itself.
        bound: Any = type(work.__dict__["wait"])
        if self._clocks is not None and bound.__name__ == "instancemethod":
            work.wait = bound(self._clocks.wait(work.wait))
        else:
            work.wait = self._timed(work.wait)
        parallel = torch.nn.parallel.DistributedDataParallel
        parallel._sync_buffers = self._timed(parallel._sync_buffers)
        self._wrap_backward()

    def _wrap_backward(self) -> None:
        losses, clocks = self._losses, self._clocks
        if clocks is not None:
            backward = clocks.backward(losses.run, self._torch.Tensor)
        else:
            backward = self._timed_backward(losses.run)
        step = self._step if clocks is None else clocks.beat

        def first(*args: Any, **kwargs: Any) -> Any:
            # The ring may have opened in a hook of the optimizer: the table of these is then being
            # walked. In a backward pass it never is.
            losses.run = backward
            optimizers: Any = sys.modules["torch.optim.optimizer"]
            GlobalHook(optimizers._global_optimizer_pre_hooks, step).arm()
            return backward(*args, **kwargs)

        losses.run = first

    def _timed_backward(self, genuine: Callable[..., Any]) -> Callable[..., Any]:
        session, state, tensor_class = self._session, self._state, self._torch.Tensor

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            # On a device the host's clock tells nothing of what is computed.
            if (
                state.in_backward
                or type(tensors) is not tensor_class
                or not tensors.is_cpu
                or session.thread != get_ident()
            ):
                return genuine(tensors, *args, **kwargs)
            state.in_backward = 1
            state.passes += 1
            asks = state.pass_cpu_ns > LONG_PASS_NS or not state.passes % SHORT_PASSES
            cpu = thread_time_ns() if asks else 0
            waited, start = state.waited_ns, perf_counter_ns()
            try:
                return genuine(tensors, *args, **kwargs)
            finally:
                took = perf_counter_ns() - start
                if asks:
                    state.pass_cpu_ns = thread_time_ns() - cpu
                blocked = took - state.pass_cpu_ns - (state.waited_ns - waited)
                if blocked > 0:
                    state.waited_ns += blocked
                state.backward_cpu_ns += state.pass_cpu_ns
                state.in_backward = 0

        return backward

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.beat()
