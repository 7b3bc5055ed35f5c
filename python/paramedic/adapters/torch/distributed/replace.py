"""Putting something in the place of a function of torch.distributed."""

import sys
from typing import Any, Optional


def available() -> Optional[Any]:
    """The module of torch.distributed's functions; None where torch was built without it."""
    package = sys.modules.get("torch.distributed")
    if package is None or not package.is_available():
        return None
    return sys.modules.get("torch.distributed.distributed_c10d")


def replace(name: str, genuine: Any, replacement: Any) -> None:
    """Puts `replacement` wherever a module of torch has `genuine` under `name`."""
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] != "torch" or module is None:
            continue
        if module.__dict__.get(name) is genuine:
            setattr(module, name, replacement)
