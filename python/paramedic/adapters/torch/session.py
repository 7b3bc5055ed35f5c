"""The session of a process that trains with torch."""

import sys
from typing import Any, Callable

from paramedic import _probe
from paramedic.adapters.common import session


class Session(session.Session):
    """Knows the rank as torch.distributed does, and workers of loaders."""

    def __init__(self, torch: Any) -> None:
        super().__init__("torch", torch)
        self.torch = torch
        self.genuine_backward: Callable[..., Any] = torch.autograd.backward
        # Once torch.compile was used no hook comes or goes: compiled code guards on their absence.
        self.compiled = False

    def _is_helper(self) -> bool:
        data = sys.modules.get("torch.utils.data")
        return data is not None and data.get_worker_info() is not None

    def _rank(self) -> "tuple[int, int]":
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        return _probe.rank_from_env()
