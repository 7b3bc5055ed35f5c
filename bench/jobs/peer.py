"""The peer: one framework reduction for each tensor and statistic, as smdebug 1.0.34 captures.

Same arguments as train.py. Every gradient and weight is reduced at every step to min, max, mean,
std, l2 norm, the mean of absolute values, and a count of what is not finite, each by its own torch
operation whose result is fetched (reference: smdebug's core/reductions and pytorch/utils).
Nothing is written to disk, which smdebug would do besides.
"""

from typing import Any, List

import torch
import train
from torch.optim.optimizer import register_optimizer_step_pre_hook

ROWS: List[List[float]] = []


def reduce(tensor: torch.Tensor) -> List[float]:
    return [
        tensor.min().item(),
        tensor.max().item(),
        tensor.mean().item(),
        tensor.std().item() if tensor.numel() > 1 else 0.0,
        tensor.norm().item(),
        tensor.abs().mean().item(),
        (~torch.isfinite(tensor)).sum().item(),
    ]


def before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    ROWS.clear()
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                ROWS.append(reduce(parameter))
                if parameter.grad is not None:
                    ROWS.append(reduce(parameter.grad))


if __name__ == "__main__":
    register_optimizer_step_pre_hook(before_step)
    train.main()
