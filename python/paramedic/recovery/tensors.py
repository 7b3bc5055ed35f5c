"""Copies of tensors that stay where they are: values are put back into the same objects."""

from __future__ import annotations

import sys
from typing import Any, Iterator, List, Tuple

MAX_COPY_BYTES = 256 << 20
# A tensor of more elements is compared by a sample.
COMPARE_WHOLE = 4096
SAMPLE = 64


class quiet:  # noqa: N801 (used like torch.no_grad, at a tenth of its price)
    """No autograd inside."""

    def __enter__(self) -> None:
        torch: Any = sys.modules["torch"]
        self._set = torch._C._set_grad_enabled
        self._before = torch.is_grad_enabled()
        self._set(False)

    def __exit__(self, *exception: object) -> None:
        self._set(self._before)


class Copies:
    """A copy of the values of a list of tensors; its memory is used again."""

    def __init__(self) -> None:
        self.live: List[Any] = []
        self._ids: List[int] = []
        self._shadows: List[Any] = []
        self._possible = False
        self._graph = False

    def take(self, live: List[Any]) -> bool:
        """Copies the values as they are now; False where some cannot be, or there are too many."""
        ids = list(map(id, live))
        if ids != self._ids:
            self._possible = all(map(is_plain, live)) and size_bytes(live) <= MAX_COPY_BYTES
            self._shadows = _matching(self._shadows, live) if self._possible else []
            self._graph = any(tensor.requires_grad for tensor in live)
            self._ids = ids
        if not self._possible:
            return False
        self.live = live
        if self._graph:
            with quiet():
                _copy(self._shadows, live)
        elif live:
            _copy(self._shadows, live)
        return True

    def shadows(self) -> List[Any]:
        """The copies, in the order of the tensors they were taken of."""
        return self._shadows

    def put_back(self) -> None:
        """Writes the values back into the tensors they came from."""
        with quiet():
            for tensor, shadow in self.values():
                tensor.copy_(shadow)

    def release(self) -> None:
        """Lets the tensors go; the memory of the copy stays for the next one."""
        self.live = []

    def select(self, indices: List[int]) -> None:
        """Keeps only the tensors at these places."""
        if self.live:
            self.live = [self.live[index] for index in indices]
            self._shadows = [self._shadows[index] for index in indices]
        self._ids = []

    def drop(self) -> None:
        """Lets everything go."""
        self.live, self._ids, self._shadows = [], [], []

    def values(self) -> Iterator[Tuple[Any, Any]]:
        """Each tensor with its copy."""
        return zip(self.live, self._shadows)


def _copy(shadows: List[Any], live: List[Any]) -> None:
    sys.modules["torch"]._foreach_copy_(shadows, live)


def _matching(shadows: List[Any], live: List[Any]) -> List[Any]:
    torch: Any = sys.modules["torch"]
    result = []
    for index, tensor in enumerate(live):
        shadow = shadows[index] if index < len(shadows) else None
        if (
            shadow is None
            or shadow.shape != tensor.shape
            or shadow.dtype != tensor.dtype
            or shadow.device != tensor.device
        ):
            shadow = torch.empty_like(tensor, requires_grad=False)
        result.append(shadow)
    return result


def is_plain(tensor: Any) -> bool:
    """Whether a tensor's values can be copied: dense, of torch's own types, with memory."""
    torch: Any = sys.modules["torch"]
    kind = type(tensor)
    own = kind is torch.nn.Parameter or kind is torch.Tensor or kind.__module__ == "torch.nn.buffer"
    return own and tensor.layout is torch.strided and tensor.device.type != "meta"


def size_bytes(tensors: List[Any]) -> int:
    """What copies of them need."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def sample(tensor: Any) -> Any:
    """A copy of a few values of a tensor, from its beginning and its end."""
    torch: Any = sys.modules["torch"]
    with quiet():
        values = tensor.reshape(-1) if tensor.is_contiguous() else tensor[:1].reshape(-1)
        return torch.cat((values[:SAMPLE], values[-SAMPLE:]))


def differs(first: Any, second: Any) -> bool:
    """Whether values changed; of large tensors only the beginning and the end are compared."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return True
    with quiet():
        if first.numel() > COMPARE_WHOLE:
            first, second = sample(first), sample(second)
        return not _same(first, second)


def _same(first: Any, second: Any) -> bool:
    torch: Any = sys.modules["torch"]
    if torch.equal(first, second):
        return True
    # NaN is equal to itself here.
    return bool(first.is_floating_point() and ((first == second) | (first != first)).all())
