"""A fingerprint of a data set: equal for equal ones in different processes.

Of what its attributes hold, as deep and as wide as some hundred looks go: numbers, texts, pieces
of tensors and arrays. No code of the data set is called.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any, List

from paramedic.adapters.torch.memory import window_of_bytes

MAX_LOOKS = 300
MAX_DEPTH = 5
MAX_PARTS = 12  # of a sequence or tensor, evenly spaced
MAX_ATTRIBUTES = 64
PIECE_BYTES = 256


def fingerprint(thing: Any) -> str:
    """16 hexadecimal digits."""
    walk = _Walk()
    walk.see(thing, MAX_DEPTH)
    return walk.digest.hexdigest()


class _Walk:
    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=8)
        self._looks = MAX_LOOKS
        self._memory = window_of_bytes()
        self._tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        self._array = getattr(sys.modules.get("numpy"), "ndarray", None)

    def see(self, thing: Any, depth: int) -> None:
        self._looks -= 1
        kind = type(thing)
        self._add(kind.__module__, kind.__qualname__)
        if self._looks < 0 or depth < 0:
            return
        if isinstance(thing, (str, bytes, int, float, bool)) or thing is None:
            self._add(repr(thing)[:200])
        elif isinstance(thing, (list, tuple)):
            self._add(str(len(thing)))
            for at in _spread(len(thing)):
                self.see(thing[at], depth - 1)
        elif isinstance(thing, range):
            self._add(repr(thing))
        elif isinstance(thing, dict):
            self._see_names(thing, depth)
        elif kind is self._tensor:
            self._see_tensor(thing)
        elif kind is self._array:
            self._see_array(thing)
        else:
            self._see_names(getattr(thing, "__dict__", {}), depth)

    def _see_names(self, names: Any, depth: int) -> None:
        self._add(str(len(names)))
        texts: List[str] = sorted(name for name in names if isinstance(name, str))
        for name in texts[:MAX_ATTRIBUTES]:
            self._add(name)
            self.see(names[name], depth - 1)

    def _see_tensor(self, tensor: Any) -> None:
        self._add(str(tuple(tensor.shape)), str(tensor.dtype), str(tensor.device))
        if tensor.device.type != "cpu" or tensor.layout is not sys.modules["torch"].strided:
            return
        address, size = tensor.data_ptr(), tensor.element_size()
        if not address or not tensor.numel() or self._memory is None:
            return
        # Rows need not lie one after another, and the numbers of a row need not either.
        dense = 1
        for length, stride in zip(reversed(tensor.shape[1:]), reversed(tensor.stride()[1:])):
            if stride != dense:
                break
            dense *= length
        stride = tensor.stride(0) if tensor.dim() else 0
        for at in _spread(tensor.shape[0] if tensor.dim() else 1):
            start = address + at * stride * size
            self.digest.update(self._memory[start : start + min(dense * size, PIECE_BYTES)])

    def _see_array(self, array: Any) -> None:
        self._add(str(array.shape), str(array.dtype))
        if array.dtype.hasobject or not array.size:
            return
        for at in _spread(array.shape[0] if array.ndim else 0):
            self.digest.update(array[at].tobytes()[:PIECE_BYTES])

    def _add(self, *texts: str) -> None:
        for text in texts:
            self.digest.update(text.encode("utf-8", "replace") + b"\0")


def _spread(count: int) -> List[int]:
    """Indices of at most MAX_PARTS parts, the first and the last among them."""
    if count <= MAX_PARTS:
        return list(range(count))
    return [at * (count - 1) // (MAX_PARTS - 1) for at in range(MAX_PARTS)]
