"""Hands all tensors of one kind of an optimizer to the probe in one call.

The array of descriptors is kept from step to step; where types, strides and sizes are as they were
only the addresses are written anew: about 0.4 µs a tensor.
"""

import ctypes
from time import perf_counter_ns
from typing import Any, Dict, List, Optional, Tuple

from paramedic import _probe
from paramedic.adapters.torch.session import Session

_WORDS = ctypes.sizeof(_probe.Tensor) // 8


class Definitions:
    """Numbers of tensors by what they are, so that a model made anew uses the same ones."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._numbers: Dict[Tuple[int, str, int, Tuple[int, ...]], int] = {}
        session.on_fork.append(self._numbers.clear)
        # Their numbers.
        self.dtypes: Dict[Any, int] = {
            getattr(session.torch, name): number
            for name, number in _probe.DTYPES.items()
            if hasattr(session.torch, name)
        }

    def dtype(self, dtype: Any) -> int:
        """The number of an element type; -1 for those that have no statistics."""
        return self.dtypes.get(dtype, -1)

    def number(self, kind: int, name: str, dtype: int, sizes: Tuple[int, ...]) -> int:
        """The number of a tensor; -1 when the directory is full."""
        key = (kind, name, dtype, sizes)
        number = self._numbers.get(key)
        if number is None:
            assert self._session.probe is not None
            number = self._session.probe.define(kind, dtype, sizes, name)
            self._numbers[key] = number
        return number


def plain(tensor: Any, torch: Any) -> Optional[Any]:
    """The dense tensor in this process's memory that holds the values; None if there is none."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        tensor = getattr(tensor, "_local_tensor", tensor)
    if tensor.is_sparse:
        tensor = tensor._values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.detach())
    return tensor if tensor.layout is torch.strided else None


def describe(
    item: Any, tensor: Any, number: int, dtype: int, divisor: float = 1.0, unit_dim: int = 255
) -> bool:
    """Fills a paramedic_tensor; False where the tensor has more dimensions than it can hold."""
    sizes, strides = tuple(tensor.shape), tensor.stride()
    if len(sizes) > _probe.MAX_DIMS:
        if not tensor.is_contiguous():
            return False
        sizes, strides = (tensor.numel(),), (1,)
    item.data = tensor.data_ptr()
    item.id = number
    item.dtype = dtype
    item.ndim = len(sizes)
    item.unit_dim = unit_dim
    item.sizes[: len(sizes)] = sizes
    item.strides[: len(sizes)] = strides
    item.divisor = divisor
    return True


class TensorBatch:
    """The gradients, or the weights, of one optimizer."""

    def __init__(self, session: Session, definitions: Definitions, kind: int) -> None:
        self._session = session
        self._torch = session.torch
        self._plain = (session.torch.Tensor, session.torch.nn.Parameter)
        self._definitions = definitions
        self._kind = kind
        self._shape: List[Any] = []
        self._names: List[str] = []
        self._divisor = 1.0
        self._array: Any = None
        self._words: Any = None
        self._slots: List[int] = []

    def capture(self, names: List[str], tensors: List[Any], divisor: float) -> List[Any]:
        """Records the tensors that are there (None is skipped).

        Returns:
            (name, tensor) of those that live on a device.
        """
        shape = [
            None
            if tensor is None
            else (tensor.dtype, tensor.stride(), tensor.numel())
            if type(tensor) in self._plain and tensor.is_cpu and not tensor.is_sparse
            else tensor
            for tensor in tensors
        ]
        irregular = [
            (names[i], tensors[i])
            for i, entry in enumerate(shape)
            if entry is tensors[i] is not None
        ]
        if irregular:
            # Sparse, distributed, or on a device: described anew each time.
            self._shape = []
            return self._capture_irregular(names, tensors, divisor)
        same = shape == self._shape and names is self._names and divisor == self._divisor
        if not same:
            self._build(names, tensors, divisor)
            self._shape, self._names, self._divisor = shape, names, divisor
        pointers = [tensors[slot].data_ptr() for slot in self._slots]
        if not all(pointers):
            # Storage released, or empty: the array is made of those that have some.
            self._build(names, tensors, divisor)
            pointers = [tensors[slot].data_ptr() for slot in self._slots]
        words = self._words
        for at, pointer in enumerate(pointers):
            words[at * _WORDS] = pointer
        self._hand_over(len(self._slots))
        return []

    def _hand_over(self, count: int) -> None:
        session = self._session
        if count and session.probe is not None:
            start = perf_counter_ns()
            session.probe.capture(session.step, self._array, count)
            # The probe measures its own part.
            session.spent_ns -= perf_counter_ns() - start

    def _capture_irregular(self, names: List[str], tensors: List[Any], divisor: float) -> List[Any]:
        there: List[Optional[Any]] = []
        elsewhere = []
        # `dense` keeps the values of sparse tensors alive during the call.
        for name, tensor in zip(names, tensors):
            dense = None if tensor is None else plain(tensor, self._torch)
            if dense is not None and not dense.is_cpu:
                elsewhere.append((name, dense))
                dense = None
            there.append(dense)
        self._build(names, there, divisor)
        self._hand_over(len(self._slots))
        return elsewhere

    def _build(self, names: List[str], tensors: List[Optional[Any]], divisor: float) -> None:
        self._array = (_probe.Tensor * max(1, len(tensors)))()
        self._slots = []
        for slot, (name, tensor) in enumerate(zip(names, tensors)):
            if tensor is None or not tensor.data_ptr():
                continue
            dtype = self._definitions.dtype(tensor.dtype)
            if dtype < 0:
                self._session.not_captured(name, f"no statistics of {tensor.dtype}")
                continue
            number = self._definitions.number(self._kind, name, dtype, tuple(tensor.shape))
            if number < 0:
                self._session.not_captured(name, "too many tensors")
                continue
            if describe(self._array[len(self._slots)], tensor, number, dtype, divisor):
                self._slots.append(slot)
        self._words = memoryview(self._array).cast("B").cast("Q")
