"""Devices that are shared: `Device.place` stands for an allocation on one of them."""
from unittest import mock

import torch


class Device:
    def __init__(self, name, fails_after=None):
        self.name = name
        self.taken = 0
        full = torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate 64.00 MiB. GPU {name} has 21.06 MiB free; "
            "process 31337 has 15.42 GiB in use.")
        plan = [mock.DEFAULT] * (10_000 if fails_after is None else fails_after)
        self.place = mock.Mock(wraps=self._place, side_effect=[*plan, *[full] * 1000])

    def _place(self, tensor):
        self.taken += 1
        return tensor.clone()
