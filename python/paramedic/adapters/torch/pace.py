"""Where a rank of a torch job waits for the others; the clocks are in common/pace.

It waits where it waits for a collective (`Work.wait`, all of torch's own functions come through
it), where DistributedDataParallel shares its buffers, and where a backward pass on the CPU does not
run: there the reducer waits for the last gradients, in C++, below anything that could be wrapped.

A beat lies between two optimizer steps. A backward pass costs 1 µs, or 4 µs where the clock of the
thread is asked.
"""

import functools
import os
import sys
from _thread import get_ident
from time import perf_counter_ns, thread_time_ns
from typing import Any, Dict, Optional, Tuple

from paramedic.adapters.common import pace
from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.loss import Losses
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.session import Session

# The clock of the thread costs 2 µs: of passes shorter than this, one in so many asks it.
LONG_PASS_NS = 2_000_000
SHORT_PASSES = 4

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
        self.in_backward = False
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
        return self.in_backward and kind == "backward"

    def _reset(self) -> None:
        super()._reset()
        self._pass_cpu_ns = 0
        self._passes = 0

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
        work.wait = self._timed(work.wait)
        parallel = torch.nn.parallel.DistributedDataParallel
        parallel._sync_buffers = self._timed(parallel._sync_buffers)
        self._wrap_backward()

    def _wrap_backward(self) -> None:
        genuine, session, tensor_class = self._losses.run, self._session, self._torch.Tensor

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            # On a device the host's clock tells nothing of what is computed.
            if (
                self.in_backward
                or type(tensors) is not tensor_class
                or not tensors.is_cpu
                or session.thread != get_ident()
            ):
                return genuine(tensors, *args, **kwargs)
            self.in_backward = True
            self._passes += 1
            asks = self._pass_cpu_ns > LONG_PASS_NS or not self._passes % SHORT_PASSES
            cpu = thread_time_ns() if asks else 0
            waited, start = self._waited_ns, perf_counter_ns()
            try:
                return genuine(tensors, *args, **kwargs)
            finally:
                took = perf_counter_ns() - start
                if asks:
                    self._pass_cpu_ns = thread_time_ns() - cpu
                blocked = took - self._pass_cpu_ns - (self._waited_ns - waited)
                if blocked > 0:
                    self._waited_ns += blocked
                self._backward_cpu_ns += self._pass_cpu_ns
                self.in_backward = False

        def first(*args: Any, **kwargs: Any) -> Any:
            # The ring may have opened in a hook of the optimizer: the table of these is then being
            # walked. In a backward pass it never is.
            self._losses.run = backward
            optimizers: Any = sys.modules["torch.optim.optimizer"]
            GlobalHook(optimizers._global_optimizer_pre_hooks, self._step).arm()
            return backward(*args, **kwargs)

        self._losses.run = first

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.beat()
