"""Statistics of module outputs, on the steps for which they are due.

One global forward hook, in place during such a step only; on all others module calls take torch's
fast path. An output is looked at inside the hook, before an operation in place can change it.
"""

import ctypes
import math
from time import perf_counter_ns
from typing import Any, Dict, Optional, Set, Tuple

from paramedic import _probe
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.tensors import Definitions, describe, plain

_EVERYWHERE = (-math.inf, math.inf)
# Where a unit of the activation can still move; a unit that is zero everywhere is dead.
# The slopes at these ends are 2.7 % (sigmoid) and 2 % (tanh) of the steepest.
_RANGES: Dict[str, Tuple[float, float]] = {
    "ReLU": _EVERYWHERE,
    "ReLU6": _EVERYWHERE,
    "Threshold": _EVERYWHERE,
    "Hardswish": _EVERYWHERE,
    "Sigmoid": (0.0067, 0.9933),
    "Hardsigmoid": (0.0067, 0.9933),
    "Tanh": (-0.99, 0.99),
    "Hardtanh": (-0.99, 0.99),
    "Softsign": (-0.99, 0.99),
}


def _unit_dim(name: str, ndim: int) -> int:
    """The dimension of units: features of (batch, features) and (batch, time, features), channels
    of images."""
    if name not in _RANGES or ndim < 2:
        return _probe.NO_UNITS
    return 2 if ndim == 3 else 1


class Activations:
    """The hook on module outputs."""

    def __init__(self, session: Session, models: Models, definitions: Definitions) -> None:
        self._session = session
        self._models = models
        self._definitions = definitions
        self._tap = session.tap("activations")
        self._grad_enabled = session.torch.is_grad_enabled
        self._graph_task = session.torch._C._current_graph_task_id
        self._one = (_probe.Tensor * 1)()
        # Places in the graph of what was seen in this step, for who looks at the graph itself.
        self.nodes: Set[int] = set()
        table = session.torch.nn.modules.module._global_forward_hooks
        self._hook = GlobalHook(table, self._on_output)
        session.on_fork.append(self._hook.disarm)

    def follow_step(self) -> None:
        """Puts the hook in place when the step that begins asks for activations."""
        if self.nodes:
            self.nodes = set()
        if self._session.compiled:
            return
        if self._session.due & _probe.DUE_ACTIVATION and self._tap.on:
            self._hook.arm()
        elif self._hook.armed:
            self._hook.disarm()

    def stop(self, why: str) -> None:
        """No activations any more."""
        self._hook.disarm()
        self._session.not_captured("activations", why)

    def _on_output(self, module: Any, args: Any, output: Any) -> None:
        # Recomputed activations (checkpointing) run inside backward: they were seen before.
        if not self._tap.on or not self._grad_enabled() or self._graph_task() != -1:
            return
        start = perf_counter_ns()
        try:
            if self._session.active():
                self._look(module, output)
        except Exception as error:
            self._hook.disarm()
            self._tap.fail(error)
        self._session.spent_ns += perf_counter_ns() - start

    def _look(self, module: Any, output: Any) -> None:
        found = None if module._modules else self._models.module(module)
        tensor = _first_tensor(output, self._session.torch)
        if found is None or tensor is None:
            return
        name, root = found
        model = root.reference()
        if model is None or not model.training:
            return
        kind = type(module).__name__
        if kind in _RANGES and tensor.grad_fn is not None:
            self.nodes.add(tensor.grad_fn._sequence_nr())
        self.record(name, kind, tensor)

    def record(self, name: str, kind: str, tensor: Any) -> None:
        """Records what the module, or the function, of class `kind` gave."""
        dense = plain(tensor, self._session.torch)
        session, probe = self._session, self._session.probe
        if dense is None or not dense.is_cpu or not dense.data_ptr() or probe is None:
            return
        dtype = self._definitions.dtype(dense.dtype)
        # The batch size is no part of what the tensor is: the last batch may be smaller.
        sizes = (0,) + tuple(dense.shape[1:])
        number = self._definitions.number(_probe.KIND_ACTIVATION, name, dtype, sizes)
        item = self._one[0]
        ctypes.memset(self._one, 0, ctypes.sizeof(item))
        unit_dim = _unit_dim(kind, dense.dim())
        if dtype < 0 or number < 0 or not describe(item, dense, number, dtype, 1.0, unit_dim):
            return
        item.low, item.high = _RANGES.get(kind, _EVERYWHERE)
        start = perf_counter_ns()
        probe.capture(session.step, self._one, 1)
        # The probe measures its own part.
        session.spent_ns -= perf_counter_ns() - start


def _first_tensor(output: Any, torch: Any) -> Optional[Any]:
    """The output, or the first of several, when it is a genuine tensor."""
    if isinstance(output, (tuple, list)) and output:
        output = output[0]
    return output if type(output) is torch.Tensor else None
