"""Where torch tells that an iteration is about to change gradients or weights.

Nothing here is seen in the job's tracebacks: where a wrapper cannot be avoided, it is around code
that does not raise.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from paramedic.recovery import samples
from paramedic.recovery.gate import Gate

_HOOK = "paramedic.rewind"


class _LogWatch:
    """Stands for a module's logger: torch asks it for its level before each backward pass.

    A wrapper around `backward` would be seen in the job's tracebacks.
    """

    def __init__(self, genuine: Any, gate: Gate) -> None:
        self._genuine = genuine
        gate.hold("on_level", genuine.getEffectiveLevel)
        self.getEffectiveLevel = gate.backward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)


def install(torch: Any, own: Any, gate: Gate) -> None:
    """Tells `gate` and `own` of backward passes, steps, cleared gradients, and new optimizers."""
    graph = torch.autograd.graph
    if hasattr(graph, "log") and hasattr(graph, "_engine_run_backward"):
        graph.log = _LogWatch(graph.log, gate)
    else:
        gate.hold("on_level", int)
        _wrap_backward(torch.autograd, gate)
    adapter: Any = sys.modules.get("paramedic.adapters.torch")
    attached = getattr(adapter, "_attached", None)
    if not attached or not attached[0].quick.tell(gate):
        optimizers: Any = sys.modules["torch.optim.optimizer"]
        optimizers._global_optimizer_pre_hooks[_HOOK] = gate.step
    for kind in (torch.optim.Optimizer, torch.nn.Module):
        _wrap_zero_grad(kind, own, gate)
    _wrap_new_optimizer(torch.optim.Optimizer, own)
    samples.install()


def _wrap_backward(autograd: Any, gate: Gate) -> None:
    """For torch before 2.1."""
    genuine = autograd.backward

    @functools.wraps(genuine)
    def backward(*args: Any, **kwargs: Any) -> Any:
        gate.backward()
        return genuine(*args, **kwargs)

    autograd.backward = backward


def _wrap_zero_grad(kind: Any, own: Any, gate: Gate) -> None:
    genuine, cleared = kind.zero_grad, gate.cleared

    @functools.wraps(genuine)
    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        genuine(self, set_to_none)
        if set_to_none:
            cleared(self)
        else:
            own.zeroed(self)

    kind.zero_grad = zero_grad


def _wrap_new_optimizer(kind: Any, own: Any) -> None:
    genuine = kind.add_param_group

    @functools.wraps(genuine)
    def add_param_group(self: Any, param_group: Any) -> None:
        genuine(self, param_group)
        own.new_optimizer(self)

    kind.add_param_group = add_param_group
