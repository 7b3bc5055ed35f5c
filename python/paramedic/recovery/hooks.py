"""Where torch tells that an iteration is about to change gradients or weights.

Nothing here is seen in the job's tracebacks: where a wrapper cannot be avoided, it is around code
that does not raise.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from paramedic.recovery import samples

_HOOK = "paramedic.rewind"


class _LogWatch:
    """Stands for a module's logger: torch asks it for its level before each backward pass.

    A wrapper around `backward` would be seen in the job's tracebacks.
    """

    def __init__(self, genuine: Any, before: Any) -> None:
        self._genuine = genuine
        self._before = before

    def getEffectiveLevel(self) -> int:  # noqa: N802
        self._before()
        return int(self._genuine.getEffectiveLevel())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)


def install(torch: Any, own: Any) -> None:
    """Tells `own` of backward passes, steps, gradients set to zero, and new optimizers."""
    graph = torch.autograd.graph
    if hasattr(graph, "log") and hasattr(graph, "_engine_run_backward"):
        graph.log = _LogWatch(graph.log, own.before_backward)
    else:
        _wrap_backward(torch.autograd, own)
    optimizers: Any = sys.modules["torch.optim.optimizer"]
    optimizers._global_optimizer_pre_hooks[_HOOK] = own.before_step
    for kind in (torch.optim.Optimizer, torch.nn.Module):
        _wrap_zero_grad(kind, own)
    _wrap_new_optimizer(torch.optim.Optimizer, own)
    samples.install()


def _wrap_backward(autograd: Any, own: Any) -> None:
    """For torch before 2.1."""
    genuine = autograd.backward

    @functools.wraps(genuine)
    def backward(*args: Any, **kwargs: Any) -> Any:
        own.before_backward()
        return genuine(*args, **kwargs)

    autograd.backward = backward


def _wrap_zero_grad(kind: Any, own: Any) -> None:
    genuine = kind.zero_grad

    @functools.wraps(genuine)
    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        genuine(self, set_to_none)
        if not set_to_none:
            own.zeroed(self)

    kind.zero_grad = zero_grad


def _wrap_new_optimizer(kind: Any, own: Any) -> None:
    genuine = kind.__init__

    @functools.wraps(genuine)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        genuine(self, *args, **kwargs)
        own.new_optimizer(self)

    kind.__init__ = __init__
